
pairs=( # launcher, library, what to change; the first that matches
	'openmpi-4.* openmpi-[45].* '
	'openmpi-5.* openmpi-5.* '
	'openmpi-5.* openmpi-4.* use an image with Open MPI 5, or an MPI profile with the mpirun of an Open MPI 4'
	'openmpi-[45].* mpich-* use an image with Open MPI, or an MPI profile with Hydra'\''s mpiexec or with srun --mpi=pmi2'
	'hydra-* mpich-* '
	'hydra-* openmpi-[45].* use an image with MPICH, or an MPI profile with Open MPI'\''s mpirun or with srun --mpi=pmix'
	'srun-pmix* openmpi-[45].* '
	'srun-pmix* mpich-* give the MPI profile the option --mpi=pmi2, or use an image with Open MPI'
	'srun-pmi2 mpich-* '
	'srun-pmi2 openmpi-5.* give the MPI profile the option --mpi=pmix, or use an image with MPICH'
	'srun-none mpich-* give the MPI profile the option --mpi=pmi2'
	'srun-none openmpi-[45].* give the MPI profile the option --mpi=pmix'
)
