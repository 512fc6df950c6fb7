from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import names, policy, script
from router.errors import PolicyError
from router.policy.schema import Rule
from router.script import directive_problems
from router.site.systems import SYSTEMS
from router.workload.model import GpuVendor
from tests.policy.given import ACCOUNTS, ADA, REST, SITES, UNHURRIED, job, loaded, problems_of, workload

SITE = "sites: [{name: s, system: openpbs, workDir: /w, queues: [{name: q, nodes: 2, cpusPerNode: 4}]}]\n"
RULES = "rules: [{name: rest, cloud: true}]\n"


def _site(text: str, queue: str = "") -> str:
    return f"sites: [{{name: s, system: openpbs, workDir: /w, queues: [{{name: q, nodes: 2, cpusPerNode: 4{queue}}}]{text}}}]\n"


def _rule(text: str, mark: str = "") -> str:
    return f"rules:\n  - {mark}{{name: r, {text}}}\n{REST}"


def test_the_embedded_queue_runs_jobs_as_a_system_user_that_started_it() -> None:
    site = SITE.replace("openpbs", "local").replace("queues:", "runtime: host, queues:")
    accounts = "accounts: [{users: [ada], as: root, site: s}]\n"

    assert policy.load({"a.yaml": site + accounts + RULES}).accounts[0].as_ == "root"


# Each row: what is written beside a whole policy, with ^ before each place that is told, and what is told there.
ENTRIES = [
    ("unknown key", _site(", ^hosts: x"), ["site s: unknown key 'hosts'; did you mean 'host'?"]),
    ("key of another style", _site(", ^work_dir: /x"), ["site s: unknown key 'work_dir'; did you mean 'workDir'?"]),
    ("unknown key below", _site("", ", ^mem: 1Gi"), ["site s: unknown key 'queues[0].mem'; did you mean 'memoryPerNode'?"]),
    ("unknown top key", "^rulez: []\n", ["unknown key 'rulez'; did you mean 'rules'?"]),
    ("no mapping", "^- a\n", ["a policy file must be a mapping with sites, accounts, controllers, rules, tests"]),
    ("no list", "rules: ^{name: a}\n", ["rules must be a list; start each entry with '-'"]),
    ("no entry", "accounts: [^x]\n", ["accounts[0]: an entry must be a mapping of keys and values"]),
    ("not YAML", "rules: [\n^", ["is not YAML: did not find expected node content"]),
    ("duplicate key", "rules: []\n^rules: []\n", ["key 'rules' occurs twice, first in line 1; remove one of the two"]),
    ("enum", _site(", runtime: ^docker"), ["site s: runtime is 'docker'; it must be 'apptainer', 'singularity' or 'host'"]),
    ("number", _site("", ", gpusPerNode: ^'2'"), ["site s: queues[0].gpusPerNode must be a whole number, without quotes and without a fraction"]),
    ("too small", _site("", ", gpusPerNode: ^-1"), ["site s: queues[0].gpusPerNode is -1; it must be at least 0"]),
    ("size", _site("", ", memoryPerNode: ^8GB"), ["site s: queues[0].memoryPerNode '8GB' is not a quantity such as 500m, 2, 1.5Gi or 1e3"]),
    ("time", _site(", margin: ^soon"), ["site s: margin 'soon' is not a duration; write 5400, 1:30:00 or 1h30m"]),
    ("text", _rule("deny: ^no"), ["rule r: deny must be text; put it in quotes if it looks like a number or like yes and no"]),
    ("path", _site(", runtimePath: ^bin/x"), ["site s: runtimePath is 'bin/x', which does not have the form ^/[^\\x00-\\x1f]*$"]),
    ("host runtime", _site(", runtime: ^host"), ["site s: runtime host runs commands without containers and is only for system local; use apptainer or singularity"]),
    ("host", _site(", host: ^login1"), ["site s: host is 'login1'; write local or ssh://[USER@]HOST[:PORT]"]),
    ("host as an option", _site(", host: ^'ssh://-oProxyCommand=x'"), ["site s: host is 'ssh://-oProxyCommand=x'; write local or"]),
    ("user as an option", _site(", host: ^'ssh://-l@x'"), ["site s: host is 'ssh://-l@x'; write local or"]),
    ("port", _site(", host: ^'ssh://x:99999'"), ["site s: host is 'ssh://x:99999'; write local or"]),
    ("path on a host", _site(", host: ^'ssh://x/home'"), ["site s: host is 'ssh://x/home'; write local or"]),
    ("no known hosts", _site(", host: ^'ssh://hpc@x'"), ["site s: knownHosts is missing: give the file with the login node's host keys, as unknown hosts are not trusted"]),
    ("nobody to log in as", _site(", knownHosts: /k, host: ^'ssh://x'"), ["site s: access own: host names no user to log in as; write ssh://USER@HOST"]),
    ("nobody to start sudo", _site(", knownHosts: /k, access: sudo, host: ^'ssh://x'"), ["site s: access sudo: host names no user to log in as; write ssh://USER@HOST"]),
    ("a user beside own keys", _site(", knownHosts: /k, access: own-keys, keys: /d, host: ^'ssh://hpc@x'"), ["site s: access own-keys: every HPC user logs in as themselves; remove hpc@ from host"]),
    ("own keys that are nowhere", _site(", knownHosts: /k, host: 'ssh://x', access: ^own-keys"), ["site s: access own-keys: keys is missing: give the directory of one private key per HPC user"]),
    ("own keys without ssh", _site(", access: ^own-keys"), ["site s: access own-keys is for a host that is reached by ssh; write own or sudo"]),
    ("known hosts without ssh", _site(", ^knownHosts: /k"), ["site s: knownHosts is for a host that is reached by ssh; remove it, or write that host"]),
    ("keys without ssh", _site(", access: sudo, ^keys: /k"), ["site s: keys is for a host that is reached by ssh; remove it, or write that host"]),
    ("access", _site(", access: ^root"), ["site s: access is 'root'; it must be 'own', 'own-keys' or 'sudo'"]),
    ("helper", _site(", helper: ^bin/x"), ["site s: helper is 'bin/x', which does not have the form ^/"]),
    ("commands of the embedded queue", _site(", runtime: host, ^commandPath: [/x]").replace("openpbs", "local"), ["site s: commandPath: the commands of the embedded queue are the agent's own; remove it"]),
    ("two directories in one", _site(", commandPath: [^'/x:/y']"), ["site s: commandPath[0] is '/x:/y', which does not have the form ^/"]),
    ("another variable", _site(", commandEnv: {SBATCH_REQUEUE: ^'1'}"), ["site s: commandEnv.SBATCH_REQUEUE is 'SBATCH_REQUEUE'; it must be 'PBS_CONF_FILE', 'PBS_SERVER'"]),
    ("observer of one user", _site(", ^observer: watch"), ["site s: observer watch is for sites of several users; write access own-keys or sudo, or remove it"]),
    ("observer root", _site(", access: sudo, ^observer: root"), ["site s: observer is root; give an account that may see all jobs and little more"]),
    ("embedded queue of many", _site(", access: ^sudo").replace("openpbs", "local"), ["site s: the embedded queue (system local) runs everything as one user: write access: own"]),
    ("placeholder of images", _site(", imageCache: ^'/w/{usr}'"), ["site s: imageCache: unknown placeholder {usr}; write {user}"]),
    ("placeholder", _site("").replace("workDir: /w", "workDir: ^'/w/{usr}'"), ["site s: workDir: unknown placeholder {usr}; write {user}"]),
    ("placeholder of volumes", _site(", volumes: [{claim: x/y, path: ^'/w/{user}/{claim}'}]"), ["site s: path: unknown placeholder {user}; write {namespace} or {claim}"]),
    ("label without a key", _site("", ", nodeLabels: {'a b': ^x}"), ["site s: queues[0].nodeLabels.a b is 'a b', which is not a label's key"]),
    ("label of a number", _site("", ", nodeLabels: {cores: ^64}"), ["site s: queues[0].nodeLabels.cores has 64, which is no text; put it in quotes"]),
    ("label of true", _site("", ", nodeLabels: {gpu: ^[true]}"), ["site s: queues[0].nodeLabels.gpu has true, which is no text; put it in quotes"]),
    ("label of nothing", _site("", ", nodeLabels: {gpu: ^}"), ["site s: queues[0].nodeLabels.gpu has no value; write '' for the empty one, or leave the label out if the queue's nodes lack it"]),
    ("label of values with and without directives", _site("", ", nodeLabels: {gpu: ^[a, {b: {chunk.gpu: b}}]}"), ["site s: queues[0].nodeLabels.gpu has a mapping in a list; write one mapping for all values, as {a: {}, b: {constraint: b}}"]),
    ("directive of a number", _site("", ", nodeLabels: {gpu: ^{a: {chunk.gpu: 100}}}"), ["site s: queues[0].nodeLabels.gpu has 100 for chunk.gpu behind 'a', which is no text; put it in quotes"]),
    ("glob for the architecture", _site("", ", nodeLabels: {^kubernetes.io/arch: '*'}"), ["site s: nodeLabels: kubernetes.io/arch: '*' is a glob; write which architecture the nodes have"]),
    ("old name of a label", _site("", ", nodeLabels: {^beta.kubernetes.io/arch: arm64}"), ["site s: nodeLabels: beta.kubernetes.io/arch is the old name of kubernetes.io/arch; write that one, which answers for both"]),
    ("ignored value of a label", _site(", ignoreNodeLabels: [^zone=a]"), ["site s: ignoreNodeLabels: 'zone=a' matches no label's key; write keys alone, such as topology.kubernetes.io/zone"]),
    ("ignored key that is none", _site(", ignoreNodeLabels: [^a b]"), ["site s: ignoreNodeLabels: 'a b' matches no label's key; write keys alone, such as topology.kubernetes.io/zone"]),
    ("label without values", _site("", ", nodeLabels: {gpu: ^[]}"), ["site s: queues[0].nodeLabels.gpu has no values; leave the label out if the queue's nodes lack it"]),
    ("no value of a label", _site("", ", nodeLabels: {gpu: ^a b}"), ["site s: queues[0].nodeLabels.gpu has 'a b', which is neither a label's value nor a glob over such values"]),
    ("no directives", _site("", ", nodeLabels: {gpu: ^{a: b}}"), ["site s: queues[0].nodeLabels.gpu has no mapping of directives behind 'a'; write 'a': {constraint: a100}"]),
    ("unknown directive of a label", _site("", ", nodeLabels: {gpu: {a: {^ncpus: '1'}}}"), ["site s: nodeLabels: gpu: a: 'ncpus' is not a directive of openpbs that may be added"]),
    ("account by a label", _site("", ", nodeLabels: {gpu: {a: {^account: x}}}"), ["site s: nodeLabels: gpu: a: account depends on the user; write it in accounts"]),
    ("fixed label", _site("", ", nodeLabels: {^kubernetes.io/os: linux}"), ["site s: nodeLabels: kubernetes.io/os is the same on every virtual node; remove it"]),
    ("label of ours", _site("", ", nodeLabels: {^batchgate.dev/queue: x}"), ["site s: nodeLabels: batchgate.dev/queue is the same on every virtual node; remove it"]),
    ("ignored architecture", _site(", ignoreNodeLabels: [pool, ^kubernetes.io/arch]"), ["site s: ignoreNodeLabels: kubernetes.io/arch says what runs a container, and is never ignored; remove it"]),
    ("default of rules", "ruleDefaults: {^mpi: true}\n", ["ruleDefaults: unknown key 'mpi'; there are kueue, figures"]),
    ("neither amount by default", "ruleDefaults: {figures: {memory: ^most}}\n", ["ruleDefaults: figures.memory is 'most'; it must be 'requests' or 'limits'"]),
    ("defaults of rules in a list", "ruleDefaults: ^[{kueue: true}]\n", ["ruleDefaults: an entry must be a mapping of keys and values"]),
    ("memory without unit", _site("", ", memoryPerNode: ^256"), ["site s: queue q: memoryPerNode is 256 bytes; did you mean 256Gi?"]),
    ("thousandths of a byte", _site("", ", memoryPerNode: ^256m"), ["site s: queue q: memoryPerNode is 1 byte; did you mean 256Gi?"]),
    ("little memory", _site("", ", memoryPerNode: ^63Mi"), ["site s: queue q: memoryPerNode is 63Mi; did you mean 63Gi?"]),
    ("text for true", "accounts: [{users: ['*'], as: ada, shared: ^'yes'}]\n", ["account ada: shared must be true or false, without quotes"]),
    ("number for true", "accounts: [{users: [c], controller: ^1}]\n", ["accounts[0]: controller must be true or false, without quotes"]),
    ("cloud as text", _rule("when: job.mpi, cloud: ^'true'"), ["rule r: cloud is 'true'; it must be true, without quotes"]),
    ("neither amount", _rule("when: job.mpi, cloud: true, figures: {memory: ^both}"), ["rule r: figures.memory is 'both'; it must be 'requests' or 'limits'"]),
    ("cloud as number", _rule("when: job.mpi, cloud: ^1"), ["rule r: cloud is '1'; it must be true, without quotes"]),
    ("no cloud", _rule("when: job.mpi, cloud: ^no"), ["rule r: cloud is false; it must be true, without quotes"]),
    ("volume of nothing", _site(", volumes: [^{path: /x}]"), ["site s: needs exactly one of hostPath, nfs, claim, storageClass, csi, image"]),
    ("volume of two", _site(", volumes: [{path: /x, hostPath: /y, ^nfs: 'a:/b'}]"), ["site s: nfs beside hostPath: give exactly one of hostPath, nfs, claim, storageClass, csi, image"]),
    ("walltimes", _site("", ", walltimeMax: 1h, walltimeDefault: ^2h"), ["site s: queue q: walltimeDefault 2h is beyond walltimeMax 1h, so no Job without a walltime fits"]),
    ("no time", _site("", ", walltimeMax: ^6m"), ["site s: queue q: walltimeMax 6m leaves the containers no time: the margin of site s is 5m; it must be longer than that by more than 1m"]),
    ("no time by a rule", _rule("when: job.mpi, hpc: [{queue: small}, {queue: big, maxWalltime: ^60}]"), ["rule r: hpc: queue big: maxWalltime 1m leaves the containers no time: the margin of site pbs is 5m"]),
    ("hours that are minutes", _rule("when: job.mpi, hpc: [{queue: big, maxWalltime: ^2:00}]"), ["rule r: hpc: queue big: maxWalltime 2m leaves the containers no time: the margin of site pbs is 5m; it must be longer than that by more than 1m; 2:00 is 2m, minutes before the colon as in PBS; write 2m, or 2h if hours are meant"]),
    ("minutes over 59", _rule("when: job.mpi, hpc: [{queue: big, maxWalltime: ^'2:99:00'}]"), ["rule r: hpc[0].maxWalltime '2:99:00' has more than 59 minutes or seconds after a colon; write"]),
    ("GPUs", _site("", ", gpuVendor: ^amd"), ["site s: queue q: gpuVendor is amd, but gpusPerNode is 0; give it or remove it"]),
    ("nobody", "accounts: [^{as: ada}]\n", ["account ada: matches nobody: give users, groups, serviceAccounts or namespaces"]),
    ("as nobody", "accounts: [^{users: [ada]}]\n", ["accounts[0]: as is missing: the HPC user to run as"]),
    ("no manager", "controllers: [{managedBy: ^kueue}]\n", ["controllers[0]: managedBy is 'kueue', which does not have the form"]),
    ("own manager", "controllers: [{managedBy: ^kubernetes.io/job-controller}]\n", ["controllers[0]: managedBy is Kubernetes' own Job controller, whose Jobs are always judged"]),
    ("root", "accounts: [{users: [ada], as: ^root}]\n", ["account root: as is root, a system user; give the account of a person or of a project"]),
    ("no site", "accounts: [{users: [ada], as: ada, site: ^'x*'}]\n", ["account ada: site 'x*' matches no site; there are: pbs, gpus"]),
    ("account of two lines", 'accounts: [{users: [ada], as: ada, account: ^"a\\nb"}]\n', ["account ada: account: 'a\\nb' has a control or non-ASCII character, which batch systems refuse or change"]),
    ("project in quotes", "accounts: [{users: [ada], as: ada, project: ^\"it's\"}]\n", ["account ada: project: \"it's\" has a quote or backslash"]),
    ("account abroad", "accounts: [{users: [ada], as: ada, account: ^größe}]\n", ["account ada: account: 'größe' has a control or non-ASCII character"]),
    ("account among directives", "accounts: [{users: [ada], as: ada, site: gpus, directives: {^account: x}}]\n", ["account ada: directives: account depends on the user; write it as account of an entry in accounts"]),
    ("directive of two lines", _rule('when: job.mpi, hpc: [{queue: gpu}], ^directives: {qos: "a\\nb"}'), ["rule r: directives: qos: 'a\\nb' has a control or non-ASCII character"]),
    ("directive that goes on", _rule('when: job.mpi, hpc: [{queue: big}], ^directives: {resource.foo: "1,walltime=99:00:00"}'), ["rule r: directives: resource.foo: '1,walltime=99:00:00' has a comma, which would begin something else there"]),
    ("queue of two words", _site("").replace("name: q", 'name: ^"q\\n"'), ["site s: queues[0].name is 'q\\n', which does not have the form"]),
    ("no expression", _rule("when: \"job.name.matches(^'(')\", cloud: true"), ["rule r: when: invalid regular expression: missing ): ("]),
    ("controller as", "accounts: [{users: [c], controller: true, ^as: ada}]\n", ["account ada: a controller creates Jobs for others, so it has no HPC user of its own; remove 'as'"]),
    ("controller of namespaces", "accounts: [{users: [c], controller: true, ^namespaces: [x]}]\n", ["accounts[0]: a controller counts in all namespaces; remove 'namespaces'"]),
    ("controller nobody", "accounts: [^{controller: true, ^namespaces: [x]}]\n", ["accounts[0]: a controller is a user, group or service account; give its name", "accounts[0]: a controller counts in all namespaces"]),
    ("system user", "accounts: [{users: [ada], as: ^systemd-timesync}]\n", ["account systemd-timesync: as is systemd-timesync, a system user"]),
    ("user name", "accounts: [{users: [ada], as: ^'ada;id'}]\n", ["account ada;id: as is 'ada;id', which does not have the form"]),
    ("embedded queue elsewhere", _site(", host: ^'ssh://x'").replace("openpbs", "local"), ["site s: the embedded queue (system local) is on this machine: write host: local"]),
    ("volume of a class", _site(", volumes: [{storageClass: fast, path: ^'/w/{handle}'}]"), ["site s: path: unknown placeholder {handle}; write {namespace} or {claim} or {class} or {volume}"]),
    ("volume by host path", _site(", volumes: [{hostPath: /x, path: ^'/w/{namespace}'}]"), ["site s: path: unknown placeholder {namespace}; there is none for such an entry"]),
    ("attribute of a volume", _site(", volumes: [{csi: d, path: ^'/w/{attributes.a/b}'}]"), ["site s: path: unknown placeholder {attributes.a/b}; write {namespace} or {claim} or {class} or {volume} or {handle} or {attributes.KEY}"]),
    ("attributes of no driver", _site(", volumes: [{claim: x/y, path: /x, ^attributes: {a: b}}]"), ["site s: attributes: only volumes of a CSI driver have attributes; write csi beside it, or remove it"]),
    ("file of an image", _site(", volumes: [{image: x, path: ^/x.sif}]"), ["site s: path: /x.sif is an image file, which cannot be bound; write a directory with its files"]),
    ("resource of nothing", _site(", resources: [{^match: a}]"), ["site s: resources: a has 0 of directive, ignore, cloud; give exactly one"]),
    ("resource of two", _site(", resources: [{^match: a, ignore: true, cloud: no}]").replace("no}", "'no'}"), ["site s: resources: a has 2 of directive, ignore, cloud; give exactly one"]),
    ("factor of nothing", _site(", resources: [{match: a, ignore: true, ^factor: 2}]"), ["site s: resources: factor belongs to a directive, and a has none"]),
    ("directive of a resource", _site(", resources: [{match: a, ^directive: ncpus}]"), ["site s: resources: 'ncpus' is not a directive of openpbs that may be added"]),
    ("account of a resource", _site(", resources: [{match: a, ^directive: account}]"), ["site s: resources: account depends on the user; write it in accounts"]),
    ("value of a resource", _site(", resources: [{match: a, directive: chunk.a, ^value: '{amount}:b'}]").replace("^value", "value").replace("directive:", "^directive:"), ["site s: resources: chunk.a: '1:b' has"]),
    ("gres of a resource", _site("", ", resources: [{match: a, directive: gres, ^value: '{amount}'}]").replace("openpbs", "slurm"), ["site s: resources: '1' is no resource of Slurm; write NAME:{amount} or NAME:TYPE:{amount}"]),
    ("gres of two", _site("", ", resources: [{match: a, directive: gres, ^value: 'a:1,b:1'}]").replace("openpbs", "slurm"), ["site s: resources: 'a:1,b:1' is no resource of Slurm"]),
    ("nfs", _site(", volumes: [{path: /x, nfs: ^filer}]"), ["site s: nfs is 'filer'; write server:/export"]),
    ("srun without Slurm", _site(", mpi: [{name: a, launcher: ^srun}]"), ["site s: MPI profile a: launcher srun starts ranks only under Slurm, and the site's system is openpbs; write openmpi or hydra"]),
    ("registry with a scheme", _site(", insecureRegistries: ['reg:*', ^'http://reg:5000']"), ["site s: insecureRegistries: 'http://reg:5000' is not a host:port, so it matches no registry; write reg:5000"]),
    ("registry with a path", _site(", insecureRegistries: [^'reg:5000/lab']"), ["site s: insecureRegistries: 'reg:5000/lab' is not a host:port, so it matches no registry; write reg:5000"]),
    ("registry that is a scheme", _site(", insecureRegistries: [^'http://']"), ["site s: insecureRegistries: 'http://' is not a host:port, so it matches no registry; write registry.example.org:5000"]),
    ("profile twice", _site(", mpi: [{name: a, launcher: openmpi}, {name: ^a, launcher: hydra}]"), ["site s: MPI profile a already exists in site s; names must be unique"]),
    ("launcher", _site(", mpi: [{name: a, launcher: ^mpt}]"), ["site s: mpi[0].launcher is 'mpt'; it must be 'openmpi', 'hydra', 'intelmpi' or 'srun'"]),
    ("limits of a choice", _rule("when: job.mpi, hpc: [{queue: big, maxNodes: ^0}]"), ["rule r: hpc[0].maxNodes is 0; it must be at least 1"]),
    ("key of a choice", _rule("when: job.mpi, hpc: [{queue: big, ^max_nodes: 1}]"), ["rule r: unknown key 'hpc[0].max_nodes'; did you mean 'maxNodes'?"]),
    ("no queues", _rule("when: job.mpi, hpc: ^[]"), ["rule r: hpc is empty: it needs at least one entry"]),
    ("one of", _rule("when: job.mpi", "^"), ["rule r: needs exactly one of hpc, cloud, deny"]),
    ("no condition", _rule("when: ^'', cloud: true"), ["rule r: when is empty; write true or a condition"]),
    ("blank condition", _rule("when: ^' ', cloud: true"), ["rule r: when is empty; write true or a condition"]),
    ("null condition", _rule("when: ^~, cloud: true"), ["rule r: when is empty; write true or a condition"]),
    ("null", "tests: [{name: ^~, job: {}, expect: {target: hpc}}]\n", ["tests[0]: name is empty"]),
    ("two of", _rule("when: job.mpi, cloud: true, ^deny: x"), ["rule r: deny beside cloud: give exactly one of hpc, cloud, deny"]),
    ("key without hpc", _rule("when: job.mpi, cloud: true, ^kueue: true"), ["rule r: kueue is only for rules with hpc; remove it"]),
    ("no such queue", _rule("when: job.mpi, hpc: [{queue: ^smal}]"), ["rule r: hpc: queue smal: no site has that queue; there are: small, big, gpu"]),
    ("no such site", _rule("when: job.mpi, hpc: [{queue: big, site: ^pbs2}]"), ["rule r: hpc: there is no site pbs2; there are: pbs, gpus"]),
    ("not on that site", _rule("when: job.mpi, hpc: [{queue: ^big, site: gpus}]"), ["rule r: hpc: site gpus has no queue big; it has: gpu"]),
    ("queue twice", _rule("when: job.mpi, hpc: [{queue: big}, {queue: ^big}]"), ["rule r: hpc: queue big is listed twice"]),
    ("queue in condition", _rule("when: \"^queues['x'].up\", cloud: true"), ["rule r: when: queues['x']: no site has that queue; there are: small, big, gpu"]),
    ("reached: true", "rules:\n  - {name: a, cloud: true}\n  - {name: b, when: ^job.mpi, cloud: true}\n  - ^{name: rest, cloud: true}\n", ["rule b: cannot be reached: rule a (p:2) holds for every Job", "rule rest: cannot be reached: rule a (p:2) holds for every Job"]),
    ("reached: same", "rules:\n  - {name: a, when: job.mpi, cloud: true}\n  - {name: b, when: ^' job.mpi', cloud: true}\n" + REST, ["rule b: cannot be reached: rule a (p:2) has the same condition"]),
    ("reached: same but for blanks", "rules:\n  - {name: a, when: job.gpus > 0 && job.name=='a  b', cloud: true}\n  - {name: b, when: ^\"job.gpus>0&&job.name == 'a  b' // c\", cloud: true}\n  - {name: c, when: \"job.gpus>0&&job.name == 'a b'\", cloud: true}\n" + REST, ["rule b: cannot be reached: rule a (p:2) has the same condition"]),
    ("reached: constant", "rules:\n  - {name: a, when: 1 == 1, cloud: true}\n  - ^{name: rest, cloud: true}\n", ["rule rest: cannot be reached: rule a (p:2) holds for every Job"]),
    ("constant catch-all", "rules:\n  - {name: rest, when: ( true ), cloud: true}\n", []),
    ("false catch-all", "rules:\n  - {name: rest, when: ^1 > 2, cloud: true}\n", ["rule rest: is the last rule and does not hold for every Job"]),
    ("no catch-all", "rules: [{name: a, when: ^job.mpi, cloud: true}]\n", ["rule a: is the last rule and does not hold for every Job; add one after it, e.g. {name: rest, cloud: true}"]),
    ("audit at the end", "rules: [{name: a, mode: ^audit, cloud: true}]\n", ["rule a: is the last rule and in mode audit, so it decides nothing; add a last rule with cloud: true"]),
    ("same name", "rules:\n  - {name: rest, when: job.mpi, cloud: true}\n  - {name: ^rest, cloud: true}\n", ["rule rest: rule rest already exists, in p:2; names must be unique"]),
    ("contradiction", _rule("when: ^job.cpus > 4 && job.cpus < 5, cloud: true"), ["rule r: when: no Job meets both 'job.cpus > 4' and 'job.cpus < 5'"]),
    ("too many cores", _rule("when: job.mpi && ^job.cpus >= 64, hpc: [{queue: small}, {queue: big}]"), ["rule r: when: no Job that meets 'job.cpus >= 64' fits any queue of this rule: job.cpus can be at most 32 there"]),
    ("too long", _rule("when: ^seconds('2h') < job.walltime, hpc: [{queue: small}]"), ["rule r: when: no Job that meets 'seconds('2h') < job.walltime' fits any queue of this rule: job.walltime can be at most 1h there"]),
    ("own limit", _rule("when: ^job.memory > quantity('32Gi'), hpc: [{queue: big, maxNodes: 1}]"), ["rule r: when: no Job that meets 'job.memory > quantity('32Gi')' fits any queue of this rule: job.memory can be at most 32Gi there"]),
    ("defaults", _rule("when: job.mpi, hpc: [{queue: small}], defaults: {walltime: ^2h}"), ["rule r: defaults: walltime is beyond what any queue of this rule has: 1h"]),
    ("test of two", "tests: [^{name: t, expect: {target: cloud}}]\n", ["test t: needs exactly one of job, file"]),
    ("test of no rule", "tests: [{name: t, job: {}, expect: {target: cloud, rule: ^x}}]\n", ["test t: expects rule x, but there is no such rule"]),
    ("test of no queue", "tests: [{name: t, job: {}, expect: {target: hpc, queue: ^x}, queues: {^z: {}}}]\n", ["test t: expects queue x, but there is no such queue", "test t: queues: no site has a queue 'z'; there are: small, big, gpu, pbs/small, pbs/big, gpus/gpu"]),
    ("test of no figure", "tests: [{name: t, job: {}, expect: {target: hpc}, queues: {big: {^freeNode: 1}}}]\n", ["test t: queues: big: freeNode: is not a figure of a queue; did you mean 'freeNodes'?"]),
    ("test of a wrong figure", "tests: [{name: t, job: {}, expect: {target: hpc}, queues: {big: {up: ^'yes', freeNodes: ^-1}}}]\n", ["test t: queues: big: up: must be true or false, without quotes", "test t: queues: big: freeNodes: is -1; it must be at least 0"]),
    ("test of no file", "tests: [{name: t, file: ^x.yaml, expect: {target: hpc}}]\n", ["test t: file 'x.yaml' is not a manifest in the policy's directory (*.yaml with apiVersion and kind)"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in ENTRIES], ids=[row[0] for row in ENTRIES])
def test_what_is_wrong_is_told_with_its_place(text: str, expected: list[str]) -> None:
    files = {"p": text.replace("^", "")}
    if not text.startswith("sites"):
        files["a.yaml"] = SITES
    if "rules:" not in text:
        files["z.yaml"] = RULES

    found = [problem for problem in problems_of(files) if not problem.startswith(("a.yaml", "z.yaml"))]

    assert [line[: len(want)] for line, want in zip(found, _placed(text, expected), strict=True)] == _placed(
        text, expected
    )


def _placed(text: str, messages: list[str], file: str = "p") -> list[str]:
    """Messages behind the places that are marked in the text."""
    pieces = text.split("^")
    before = ["".join(pieces[: count + 1]) for count in range(len(pieces) - 1)]
    places = [(part.count("\n") + 1, len(part) - part.rfind("\n")) for part in before]
    return [f"{file}:{line}:{column}: {message}" for (line, column), message in zip(places, messages, strict=True)]


def check(marked: dict[str, tuple[str, list[str]]]) -> None:
    """Check that files make exactly the problems that are told beside each, at the marks in its text."""
    expected = [line for file, (text, messages) in marked.items() for line in _placed(text, messages, file)]

    found = problems_of({file: text.replace("^", "") for file, (text, _) in marked.items()})

    assert [line[: len(want)] for line, want in zip(found, expected, strict=True)] == expected


def test_all_problems_of_all_files_are_told_in_order() -> None:
    check(
        {
            "10.yaml": (_site(", ^color: red"), ["site s: unknown key 'color'"]),
            "20.yaml": ("accounts: [{^namespaces: [lab], as: ada}]\n", ["account ada: reached through namespaces"]),
            "30.yaml": (
                (
                    "rules:\n  - {name: r, when: job.^cpu > 1, hpc: [{queue: q}]}\n"
                    "  - {name: rest, when: job.^gpu > 1, cloud: ^please}\n"
                ),
                ["rule r: when: job has no 'cpu'", "rule rest: when: job has no 'gpu'", "rule rest: cloud is 'please'"],
            ),
        }
    )


def test_all_that_is_wrong_in_one_condition_is_told() -> None:
    wrong = "job.^cpu > 1 && ^queues['x'].up && job.memory > quantity(^'1Gib') && job.name.matches(^'(')"
    told = [
        "rule r: when: job has no 'cpu'",
        "rule r: when: queues['x']: no site has that queue; there are: small, big, gpu",
        "rule r: when: '1Gib' is not a quantity",
        "rule r: when: invalid regular expression: missing ): (",
    ]
    check({"a.yaml": (SITES, []), "p": (_rule(f'when: "{wrong}", cloud: true'), told)})
    broken = "rule r: unknown key 'clod'"
    check({"a.yaml": (SITES, []), "p": (_rule(f'when: "{wrong}", ^clod: true'), [*told, broken])})


def test_of_a_condition_that_is_no_cel_nothing_else_is_told() -> None:
    when = "job.name == 'x && queues['y'].up && job.memory > quantity('1Gib')"
    found = problems_of({"a.yaml": SITES, "p": _rule(f'when: "{when}", cloud: true')})

    assert found
    assert not any("queue" in problem or "quantity" in problem for problem in found)


NO_END = "is the last rule and does not hold for every Job"
ENDS = [
    ("a broken rule before", "rules:\n  - {name: a, ^clod: true}\n  - {name: b, when: ^job.mpi, cloud: true}\n", ["rule a: unknown key", f"rule b: {NO_END}"]),
    ("a broken rule behind", "rules:\n  - {name: b, when: job.mpi, cloud: true}\n  - {name: a, ^clod: true}\n", ["rule a: unknown key"]),
    ("a key that may be rules behind", "rules: [{name: b, when: job.mpi, cloud: true}]\n^rulse: []\n", ["unknown key 'rulse'"]),
    ("a key that may be rules before", "^rulse: []\nrules: [{name: b, when: ^job.mpi, cloud: true}]\n", ["unknown key 'rulse'", f"rule b: {NO_END}"]),
    ("rules that are no list behind", "rules: [{name: b, when: job.mpi, cloud: true}]\n---\nrules: ^x\n", ["rules must be a list"]),
    ("a last rule that may be for all once it compiles", "rules: [{name: b, when: ^ture, cloud: true}]\n", ["rule b: when: there is no 'ture'"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS])
def test_a_missing_rule_for_everything_is_told_wherever_it_is_certain(text: str, told: list[str]) -> None:
    check({"p": (text, told)})


def test_what_a_file_that_cannot_be_read_may_end_with_is_not_asked_for() -> None:
    rule = ("rules: [{name: b, when: ^job.mpi, cloud: true}]\n", [f"rule b: {NO_END}"])
    no_yaml = ("rules: [\n^", ["is not YAML"])

    check({"a": (rule[0].replace("^", ""), []), "b": no_yaml})
    check({"a": no_yaml, "b": rule})


def test_names_of_entries_that_are_wrong_elsewhere_are_used_once_as_well() -> None:
    check(
        {
            "a.yaml": (_site(", ^color: red") + "rules: [{name: r, ^clod: true}]\n", ["site s: unknown key", "rule r: unknown key"]),
            "b.yaml": (
                SITE.replace("name: s,", "name: ^s,") + "rules:\n  - {name: ^r, when: job.mpi, cloud: true}\n  - {name: all, cloud: true}\n",
                ["site s: site s already exists, in a.yaml:1", "rule r: rule r already exists, in a.yaml:2"],
            ),
            "c.yaml": (
                "tests:\n  - {name: t, job: {}, expect: {target: ^moon}}\n  - {name: ^t, job: {}, expect: {target: cloud}}\n",
                ["test t: expect.target is 'moon'", "test t: test t already exists, in c.yaml:2"],
            ),
        }
    )  # fmt: skip


SHARED = [
    ("namespaces: [lab]", "namespaces"),
    ("serviceAccounts: ['lab/*']", "serviceAccounts"),
    ("serviceAccounts: ['lab/*'], namespaces: [lab]", "serviceAccounts"),
    ("users: ['system:serviceaccount:lab:runner']", "users"),
    ("users: ['*']", "users"),
    ("users: ['s*']", "users"),
    ("groups: ['system:serviceaccounts:lab']", "groups"),
    ("groups: ['*']", "groups"),
    ("groups: ['system:authenticated']", "groups"),
]


@pytest.mark.parametrize(("entry", "reached"), SHARED)
def test_an_account_that_everyone_in_a_namespace_reaches_says_so(entry: str, reached: str) -> None:
    rest = {"a.yaml": SITES, "z.yaml": RULES}
    found = problems_of({**rest, "p": f"accounts: [{{{entry}, as: ada}}]\n"})

    assert len(found) == 1
    assert f"reached through {reached}: everyone with 'edit' in the namespace can run as ada" in found[0]
    assert problems_of({**rest, "p": f"accounts: [{{{entry}, as: ada, shared: true}}]\n"}) == []


CLUSTERS_OWN = [
    "system:kube-controller-manager",
    "system:kube-*",
    "system:kube-scheduler",
    "system:node:n1",
    "system:node:*",
    "system:apiserver",
]


@pytest.mark.parametrize("user", CLUSTERS_OWN)
def test_the_clusters_own_programs_are_no_people(user: str) -> None:
    rest = {"a.yaml": SITES, "z.yaml": RULES}
    (found,) = problems_of({**rest, "p": f"accounts: [{{users: [ada, '{user}'], as: ada}}]\n"})

    assert found.startswith(f"p:1:26: account ada: users: '{user}' matches components of Kubernetes, which create Jobs")
    assert problems_of({**rest, "p": f"accounts: [{{users: ['{user}'], as: ada, shared: true}}]\n"}) == []
    assert problems_of({**rest, "p": f"accounts: [{{users: ['{user}'], controller: true}}]\n"}) == []


@pytest.mark.parametrize(
    "entry", ["users: [ada]", "users: ['*@lab.org']", "groups: [physicists]", "users: [a], namespaces: [l]"]
)
def test_an_account_of_people_needs_no_word_more(entry: str) -> None:
    assert problems_of({"a.yaml": SITES, "z.yaml": RULES, "p": f"accounts: [{{{entry}, as: ada}}]\n"}) == []


STYLES = [
    "    when: job.mpi && job.^cpu > 1\n",
    "    when: 'job.name == ''a'' && job.^cpu > 1'\n",
    '    when: "job.name == \\"a\\" && \\u006aob.^cpu > 1"\n',
    "    when: |\n      job.mpi &&\n      job.^cpu > 1\n",
    "    when: |2-\n\n        job.mpi &&\n\n      job.^cpu > 1\n",
    "    when: >-\n      job.mpi\n      && job.^cpu\n      > 1\n",
    "    when: >\n      job.mpi\n        && job.^cpu\n",
    "    when: job.mpi\n      && job.^cpu > 1\n",
    '    when: "job.mpi \\\n      && job.^cpu > 1"\n',
    "    when: &x job.^cpu > 1\n",
    "    when: !!str 'job.^cpu > 1'\n",
    "    when:\n      job.^cpu > 1\n",
    "    when: 'job.name == \"größe\" && job.^cpu > 1'\n",
]


@pytest.mark.parametrize("when", STYLES)
def test_the_caret_stands_under_the_error_however_the_condition_is_written(when: str) -> None:
    text = f"rules:\n  - name: r\n{when}    cloud: true\n{REST}"
    (place,) = _placed(text, [""])

    with pytest.raises(PolicyError) as caught:
        policy.load({"p": text.replace("^", "")})

    (problem,) = caught.value.problems
    shown, caret = problem.excerpt.split("\n")
    assert f"p:{problem.line}:{problem.column}: " == place
    assert shown == f"  | {text.replace('^', '').splitlines()[problem.line - 1]}"
    assert shown[caret.index("^") :].startswith("cpu")


def test_a_caret_under_the_end_stands_behind_the_text() -> None:
    with pytest.raises(PolicyError) as caught:
        policy.load({"p": f"rules:\n  - name: r\n    when: job.cpus >\n    cloud: true\n{REST}"})

    line = "    when: job.cpus >"
    assert caught.value.problems[0].excerpt == f"  | {line}\n  | {' ' * len(line)}^"


def test_directives_are_those_of_the_dialect() -> None:
    """What a dialect allows is the script's to say; that each holder of directives is asked about is ours."""
    (said,) = directive_problems("openpbs", {"no-such": "x"})
    check(
        {
            "a.yaml": (
                _site(", ^directives: {no-such: x}", ", ^directives: {no-such: x}"),
                [
                    f"site s: directives: {said}",
                    f"site s: directives: {said}",
                ],
            ),
            "b.yaml": (
                "accounts: [{users: [ada], as: ada, ^directives: {no-such: x}}]\n",
                [f"account ada: directives: {said}"],
            ),
            "c.yaml": (
                _rule("when: job.mpi, hpc: [{queue: q}], ^directives: {no-such: x}"),
                [f"rule r: directives: {said}"],
            ),
        }
    )


def test_an_observer_runs_no_jobs() -> None:
    check(
        {
            "a.yaml": (_site(", access: sudo, observer: watch"), []),
            "b.yaml": (
                "accounts: [{users: [ada], as: ada}, {users: [ben], as: ^watch}]\n",
                ["account watch: as is watch, the observer of site s, which may only look; give another HPC user"],
            ),
            "c.yaml": (RULES, []),
        }
    )


def test_the_observer_is_each_user_unless_one_is_named() -> None:
    sites = [
        policy.load({"a": SITE.replace("queues:", f"{given} queues:"), "b": "rules: [{name: r, cloud: true}]"}).sites[0]
        for given in ("", "observer: each-user,", "access: sudo, observer: hpc-watch,")
    ]

    assert [site.observer for site in sites] == ["each-user", "each-user", "hpc-watch"]


TEXTS = st.text(max_size=4) | st.text(alphabet="a /\"'\\`$#%,=:\n\tß", min_size=1, max_size=4)


@UNHURRIED
@given(system=st.sampled_from(list(SYSTEMS)), account=TEXTS, project=TEXTS, value=TEXTS)
def test_what_checks_can_be_written_into_a_script(system: str, account: str, project: str, value: str) -> None:
    key = {"slurm": "comment", "torque": "group_list"}.get(system, "group_list")
    site = SITE.replace("openpbs", system).replace("queues:", f"directives: {{{key}: {json.dumps(value)}}}, queues:")
    person = {"users": ["ada"], "as": "ada", "account": account, "project": project}
    try:
        checked = policy.load(
            {"a": site, "b": json.dumps({"accounts": [person]}), "c": "rules: [{name: r, hpc: [{queue: q}]}]"}
        )
    except PolicyError:
        return
    job = workload()
    route = policy.decide(checked, job, ADA).route

    assert route is not None
    assert account in script.render(job, route).text


def test_gpu_resources_of_two_vendors() -> None:
    other = SITE.replace("name: s,", "name: t,")
    check(
        {
            "a.yaml": (SITE.replace("openpbs,", "openpbs, gpuResources: {x/gpu: nvidia},"), []),
            "b.yaml": (
                other.replace("openpbs,", "openpbs, gpuResources: {^x/gpu: amd},"),
                ["site t: gpuResources: x/gpu is amd here and nvidia in a.yaml:1; a Job has one vendor"],
            ),
            "c.yaml": (RULES, []),
        }
    )


def test_same_site_and_queue() -> None:
    check(
        {
            "a.yaml": (
                SITE.replace("}]}]", "}, {name: ^q, nodes: 1, cpusPerNode: 1}]}]"),
                ["site s: queue q already exists in site s; names must be unique"],
            ),
            "b.yaml": (
                SITE.replace("name: s,", "name: ^s,"),
                ["site s: site s already exists, in a.yaml:1; names must be unique"],
            ),
            "c.yaml": (RULES, []),
        }
    )


def test_nodes_that_would_have_one_name() -> None:
    """``a_b`` is written ``a-b-<hash>``; a queue that really has that name collides with it."""
    taken = names.node_name("s", "a_b").partition(".")[0]
    check(
        {
            "a.yaml": (
                _site("")
                .replace("name: q,", "name: a_b,")
                .replace("}]}]", f"}}, {{name: ^{taken}, nodes: 1, cpusPerNode: 1}}]}}]"),
                [
                    f"site s: queue s/{taken} and queue s/a_b would be the same Node {taken}.s.batchgate; rename one of them"
                ],
            ),
            "c.yaml": (RULES, []),
        }
    )


def test_the_same_queue_on_two_sites_needs_a_site() -> None:
    files: dict[str, tuple[str, list[str]]] = {
        "a.yaml": (SITE, []),
        "b.yaml": (SITE.replace("name: s,", "name: t,"), []),
    }
    which = "several sites have a queue of that name;"
    check(
        {
            **files,
            "c.yaml": (
                _rule("when: \"^queues['q'].up\", hpc: [{queue: ^q}]"),
                [
                    f"rule r: when: queues['q']: {which} write one of s/q, t/q",
                    f"rule r: hpc: queue q: {which} add site: s/q, t/q",
                ],
            ),
        }
    )
    check({**files, "c.yaml": (_rule("when: \"queues['s/q'].up\", hpc: [{queue: q, site: t}]"), [])})


def test_no_rules() -> None:
    assert problems_of({"a.yaml": "sites: []\n"}) == [
        "the policy: has no rules; the least is: rules: [{name: rest, cloud: true}]"
    ]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("", "the policy: has no rules; the least is: rules: [{name: rest, cloud: true}]"),
        ("ruels: [{name: rest, cloud: true}]\n", "r:1:1: unknown key 'ruels'; did you mean 'rules'?"),
    ],
)
def test_without_rules_nothing_is_said_of_tests(rules: str, said: str) -> None:
    tests = "tests: [{name: t, job: {}, expect: {target: cloud, rule: rest}}]\n"

    assert problems_of({"r": rules, "t": tests}) == [said]


KUBERNETES = [
    ("apiVersion: batchgate.dev/v1\n^kind: Policy\nrules: [{name: rest, cloud: true}]\n", "Policy with rules"),
    (
        "apiVersion: batchgate.dev/v1\n^kind: Policy\nmetadata: {name: x}\nspec: {accounts: []}\n",
        "Policy with spec.accounts",
    ),
]


@pytest.mark.parametrize(("text", "what"), KUBERNETES)
def test_a_policy_in_the_form_of_a_kubernetes_object_is_told(text: str, what: str) -> None:
    key = what.rpartition(".")[2].rpartition(" ")[2]
    check(
        {
            "a.yaml": (
                text,
                [
                    (
                        f"is a Kubernetes object of kind {what}, but a policy file is not a Kubernetes object: "
                        f"remove apiVersion, kind, metadata and spec, and write {key}: at the first column"
                    )
                ],
            ),
            "b.yaml": (RULES, []),
        }
    )


def test_an_object_that_is_no_job_is_doubtful_among_policies() -> None:
    files = {"a.yaml": SITES, "job.yaml": json.dumps(job()), "k.yaml": "apiVersion: v1\nkind: ConfigMap\ndata: {}\n"}

    assert policy.load({**files, "z.yaml": "rules: [{name: rest, cloud: true}]"}).warnings == (
        (
            "k.yaml:2:1: is a ConfigMap, which is neither a policy file nor a Job for a test; it is ignored\n"
            "  | kind: ConfigMap\n  | ^"
        ),
    )


def test_a_time_zone_is_known() -> None:
    check(
        {
            "a.yaml": (
                _site(", timeZone: ^Europe/Berln"),
                ["site s: timeZone: 'Europe/Berln' is not a time zone; write a name such as Europe/Berlin, or UTC"],
            ),
            "c.yaml": (RULES, []),
        }
    )


def test_a_good_policy() -> None:
    checked = loaded("  - {name: gpus, when: job.gpus > 0, hpc: [{queue: gpu, maxNodes: 1}]}\n")

    assert [site.name for site in checked.sites] == ["pbs", "gpus"]
    assert [(rule.name, rule.place) for rule in checked.rules] == [("gpus", "c.yaml:2"), ("rest", "c.yaml:3")]
    assert [(c.site.name, c.queue.name, c.choice.max_nodes) for c in checked.rules[0].candidates] == [
        ("gpus", "gpu", 1)
    ]
    assert sorted(checked.queues) == ["big", "gpu", "gpus/gpu", "pbs/big", "pbs/small", "small"]
    assert checked.warnings == ()


def test_true_needs_no_quotes() -> None:
    checked = policy.load({"p": "rules: [{name: a, when: true, cloud: true}]"})

    assert checked.rules[0].rule == Rule(name="a", when="true", cloud=True)


def test_gpu_resources_of_all_sites() -> None:
    files = {"a.yaml": SITE.replace("openpbs,", "openpbs, gpuResources: {x/gpu: nvidia, y/gpu: amd},"), "c.yaml": RULES}

    assert policy.load(files).gpu_resources == {"x/gpu": GpuVendor.NVIDIA, "y/gpu": GpuVendor.AMD}


def test_the_digest_is_of_names_and_texts() -> None:
    one = policy.load({"a.yaml": RULES})

    assert one.digest == policy.load({"a.yaml": RULES}).digest
    assert one.digest != policy.load({"b.yaml": RULES}).digest
    assert one.digest != policy.load({"a.yaml": RULES + "# x\n"}).digest


WARNINGS = [
    ("  - {name: r, when: \"job.labels['a'] == 'b'\", cloud: true}\n", "c.yaml:2: rule r: if the label is missing, job.labels['a'] cannot"),
    ("  - {name: r, when: job.labels.tier == 'b', cloud: true}\n", "c.yaml:2: rule r: if the label is missing, job.labels.tier cannot be evaluated, and the Job stays in the cloud (or is denied, by a rule that denies); write 'tier' in job.labels && … before it"),
    ("  - {name: r, when: has(job.labels.tier) && job.labels.tier == 'b', cloud: true}\n", None),
    ("  - {name: r, when: \"'tier' in job.labels && job.labels.tier == 'b'\", cloud: true}\n", None),
    ("  - {name: r, when: \"job.labels.exists(l, l == 'b')\", cloud: true}\n", None),
    ("  - {name: r, when: \"job.name.matches('^' + request.namespace)\", cloud: true}\n", "c.yaml:2: rule r: the pattern '^' + request.namespace of matches() is known only when a Job comes; if it"),
    ("  - {name: r, when: \"job.images.exists(i, 'a'.matches(i))\", cloud: true}\n", "c.yaml:2: rule r: the pattern i of matches()"),
    ("  - {name: r, when: \"job.images.exists(i, i.matches('^a' + 'b'))\", cloud: true}\n", None),
    ("  - {name: Rest, when: job.mpi, cloud: true}\n", "c.yaml:3: rule rest: its name differs from rule Rest (c.yaml:2) only in case"),
    ("  - {name: r, when: job.mpi, hpc: [{queue: big, maxNodes: 9}]}\n", "c.yaml:2: rule r: maxNodes 9 has no effect: queue big has nodes: 4"),
    ("  - {name: r, when: job.mpi, hpc: [{queue: big, maxWalltime: 48h}]}\n", "c.yaml:2: rule r: maxWalltime has no effect: queue big has walltimeMax 1d"),
    ("  - {name: r, when: job.mpi, hpc: [{queue: big, maxWalltime: 12:00}]}\n", "c.yaml:2: rule r: maxWalltime 12:00 is 12m, minutes before the colon as in PBS; write 12m, or 12h if hours are meant"),
    ("  - {name: r, when: job.mpi, hpc: [{queue: big}], defaults: {walltime: '12:00'}}\n", "c.yaml:2: rule r: walltime 12:00 is 12m"),
    ("  - {name: r, when: \"job.walltime > seconds('2:00')\", cloud: true}\n", "c.yaml:2: rule r: when: 2:00 is 2m"),
    ("  - {name: r, when: \"'a' in job.labels && job.labels['a'] == 'b'\", cloud: true}\n", None),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "warning"), WARNINGS)
def test_warnings(rules: str, warning: str | None) -> None:
    found = loaded(rules).warnings

    assert [text[: len(warning or "")] for text in found] == ([warning] if warning else [])


def _doubts(site: str, accounts: str) -> tuple[str, ...]:
    return policy.load({"a": site, "b": f"accounts: [{accounts}]\n", "c": RULES}).warnings


def test_a_directory_that_users_share_is_told() -> None:
    ada, bob = "{users: [ada], as: ada}", "{users: [bob], as: bob}"
    said = "a:1: site s: workDir is the same directory for all HPC users"

    assert _doubts(SITE, f"{ada}, {bob}") == (f"{said} (ada, bob); write /w/{{user}}",)
    by_ssh = ", host: 'ssh://login.example.org:22', knownHosts: /k, access: own-keys, keys: /keys"
    assert _doubts(_site(by_ssh), "") == (f"{said}; write /w/{{user}}",)
    assert _doubts(_site(", host: 'ssh://hpc@login.example.org:22', knownHosts: /k"), "") == (), "one user"
    assert _doubts(SITE, ada) == ()
    assert _doubts(SITE.replace("/w,", "'/w/{user}',"), f"{ada}, {bob}") == ()
    cache = SITE.replace("/w,", "'/w/{user}', imageCache: /i,")
    assert _doubts(cache, f"{ada}, {bob}") == (
        "a:1: site s: imageCache is the same directory for all HPC users (ada, bob); write /i/{user}",
    )


HIDDEN = "MPI profile b is never used, as images of a before it match every image; move it up"


def test_times_of_sites_with_one_colon_are_doubtful() -> None:
    checked = policy.load({"a": _site(", margin: 5:00", ", walltimeMax: 48:00"), "c": RULES})

    assert [text.partition(",")[0] for text in checked.warnings] == [
        "a:1: site s: walltimeMax 48:00 is 48m",
        "a:1: site s: margin 5:00 is 5m",
    ]


@pytest.mark.parametrize(
    ("text", "account", "expected"),
    [
        ("secrets: stage", "{users: [ada], as: ada}", ()),
        ("secrets: stage", "{namespaces: [lab], shared: true, as: lab}", ()),
        ("secrets: cloud", "{namespaces: ['*'], shared: true, as: lab}", ()),
        ("secrets: stage", "{namespaces: [lab, hub], shared: true, as: lab}", ("secrets: stage, and HPC user lab runs Jobs of namespace lab, namespace hub: what is staged for one of them, Jobs of the others can read",)),
        ("secrets: stage", "{namespaces: ['lab-*'], shared: true, as: lab}", ("secrets: stage, and HPC user lab runs Jobs of namespace lab-*: what is staged for one of them, Jobs of the others can read",)),
        ("secrets: stage, tokens: stage, apiServer: 'https://k:6443'", "{groups: [physics], as: phys}", ("secrets and tokens: stage, and HPC user phys runs Jobs of group physics: what is staged for one of them, Jobs of the others can read",)),
        ("tokens: stage, apiServer: 'https://k:6443', needTokens: [a/b]", "{users: [ada], as: ada}", ("needTokens has no effect with tokens: stage: every Job gets the token that it asks for",)),
    ],
)  # fmt: skip
def test_doubts_about_credentials(text: str, account: str, expected: tuple[str, ...]) -> None:
    assert _doubts(_site(f", {text}"), account) == tuple(f"a:1: site s: {one}" for one in expected)


def test_tokens_need_the_address_of_the_api_server() -> None:
    with pytest.raises(PolicyError) as error:
        _doubts(_site(", tokens: stage"), "{users: [ada], as: ada}")

    words = "tokens: stage needs apiServer, the cluster's API server as nodes reach it, e.g. https://kubernetes.example.org:6443"
    assert [one.message for one in error.value.problems] == [words]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("secrets: pull", ()),
        ("exec: true", ("exec: true has no effect with system: openpbs, which has no way of its own into a running job; write exec: ssh where users may log in to the nodes of their jobs",)),
        ("exec: ssh", ()),
        ("exec: false", ()),
        ("secrets: pull, pull: job", ("secrets: pull has an effect only with pull: host; with pull: job no pull secret is read",)),
        ("secrets: pull, pull: never", ("secrets: pull has an effect only with pull: host; with pull: never no pull secret is read",)),
        ("mpi: [{name: a, launcher: hydra, images: ['x*']}, {name: b, launcher: openmpi}]", ()),
        ("mpi: [{name: a, launcher: hydra}, {name: b, launcher: openmpi, impliesMpi: true}]", ()),
        ("mpi: [{name: a, launcher: hydra, images: [x, '*']}, {name: b, launcher: openmpi}]", (HIDDEN,)),
        ("mpi: [{name: a, launcher: hydra, impliesMpi: true}, {name: b, launcher: openmpi, impliesMpi: true}]", (HIDDEN,)),
        ("mpi: [{name: a, launcher: hydra, impliesMpi: true}, {name: b, launcher: openmpi, images: [x]}]", (HIDDEN,)),
    ],
)  # fmt: skip
def test_what_of_a_site_is_never_used(text: str, expected: tuple[str, ...]) -> None:
    assert _doubts(_site(f", {text}"), "{users: [ada], as: ada}") == tuple(f"a:1: site s: {one}" for one in expected)


def test_exec_has_an_effect_where_the_batch_system_has_a_way_into_a_job() -> None:
    assert _doubts(_site(", exec: true").replace("openpbs", "slurm"), "{users: [ada], as: ada}") == ()
    assert _doubts(_site(", exec: ssh").replace("openpbs", "torque"), "{users: [ada], as: ada}") == ()


@pytest.mark.parametrize(
    ("system", "way", "words"),
    [
        ("slurm", "ssh", "exec: ssh is for OpenPBS and TORQUE; system: slurm has a way of its own: write exec: true"),
        ("openpbs", "rsh", "exec is 'rsh'; it must be false, true or 'ssh'"),
    ],
)
def test_ways_that_a_site_does_not_have(system: str, way: str, words: str) -> None:
    with pytest.raises(PolicyError) as error:
        _doubts(_site(f", exec: {way}").replace("openpbs", system), "{users: [ada], as: ada}")

    assert [one.message for one in error.value.problems] == [words]


@pytest.mark.parametrize(
    ("path", "told"),
    [("/x/{namespace}-{claim}", True), ("/x/{namespace}/{claim}", False), ("/x/{namespace}-{claim}-{volume}", False)],
)
def test_claims_of_two_namespaces_in_one_place_are_doubtful(path: str, *, told: bool) -> None:
    said = (
        f"a:1: site s: volumes: path {path} joins {{namespace}} and {{claim}} in one part, so claim b-c of namespace a has the "
        "place of claim c of namespace a-b; write them as two parts"
    )
    volumes = f", volumes: [{{storageClass: fast, path: '{path}'}}]"

    assert _doubts(_site(volumes), "{users: [ada], as: ada}") == ((said,) if told else ())


@pytest.mark.parametrize(
    ("rule", "told"),
    [("", True), ("defaults: {walltime: 30m}, ", False)],
)
def test_a_limit_below_the_queues_default_is_told(rule: str, *, told: bool) -> None:
    rules = f"rules:\n  - {{name: r, when: job.mpi, {rule}hpc: [{{queue: q, maxWalltime: 1h}}]}}\n{REST}"
    checked = policy.load({"a": _site("", ", walltimeDefault: 2h"), "b": "accounts: [{users: [a], as: a}]", "c": rules})

    said = "c:2: rule r: Jobs that ask for no walltime get maxWalltime 1h in queue q, not its walltimeDefault 2h"
    assert checked.warnings == ((said,) if told else ())


def test_a_site_that_nobody_may_use() -> None:
    checked = loaded("  - {name: r, when: job.mpi, hpc: [{queue: big}]}\n", accounts="accounts: []\n")

    assert checked.warnings == (
        "no entry of accounts matches site pbs: every Job that rules send there stays in the cloud",
    )


WORDS = st.sampled_from(
    [*"[]{}-:,'\"|>*&#~\n\t", "\n", "\n", "sites", "accounts", "rules", "tests", "name", "when", "hpc", "cloud", "true",
     "deny", "queue", "1", "-1", "1e9", "as", "users", "expect", "job.cpus", "&&", "64Gi", "system", "local", "/x"]
)  # fmt: skip


def _load(files: dict[str, str]) -> list[str] | None:
    try:
        policy.load(files)
    except PolicyError as error:
        return [str(problem) for problem in error.problems]
    return None


@UNHURRIED
@given(st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=80))
def test_rubbish_is_a_policy_error_with_problems(text: str) -> None:
    assert _load({"p": text}) != []


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "a", "job.cpus > 1", "1h", "/x", "local", "é😀"])
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
    ["name", "when", "hpc", "queue", "site", "as", "users", "queues", "nodes", "cpusPerNode", "system", "workDir", "job", "expect", "target", "deny", "mpi", "volumes", "directives"]), inner, max_size=5))  # fmt: skip


@UNHURRIED
@given(
    st.fixed_dictionaries(
        {}, optional={key: st.lists(VALUES, max_size=3) for key in ("sites", "accounts", "rules", "tests")}
    )
)
def test_wrong_shapes_are_a_policy_error_with_problems(value: dict[str, object]) -> None:
    assert _load({"p": json.dumps(value)}) != []


def test_given_policies_are_good() -> None:
    assert _load({"a": SITES, "b": ACCOUNTS, "c": RULES}) is None


@pytest.mark.parametrize(
    ("site", "queue", "told"),
    [
        ("ignoreNodeLabels: ['topology.kubernetes.io/*', pool]", "disk: ssd", ""),
        (
            "ignoreNodeLabels: ['nvidia.com/*']",
            "disk: ssd",
            (
                "ignoreNodeLabels: 'nvidia.com/*' also matches nvidia.com/gpu.product, by which Jobs choose hardware; list the keys "
                "that mean nothing, and state hardware with nodeLabels of the queues"
            ),
        ),
        (
            "keep: 7d",
            "kubernetes.io/hostname: n1",
            "queue q: nodeLabels: kubernetes.io/hostname names single machines, and a queue has several",
        ),
        ("directives: {chunk.gpu: a}", "gpu: {x: {chunk.gpu: a}}", ""),
        (
            "directives: {chunk.gpu: a}",
            "gpu: {x: {chunk.gpu: b}}",
            (
                "queue q: nodeLabels: gpu: the directive chunk.gpu b replaces a of the queue or site for Jobs that ask for it; write "
                "both into it if both must hold"
            ),
        ),
    ],
)
def test_doubtful_node_labels_are_told(site: str, queue: str, told: str) -> None:
    queues = f"queues: [{{name: q, nodes: 2, cpusPerNode: 4, nodeLabels: {{{queue}}}}}]"
    text = f"sites: [{{name: s, system: openpbs, workDir: '/w/{{user}}', {site}, {queues}}}]\n"

    found = policy.load({"a.yaml": text, "b.yaml": ACCOUNTS, "c.yaml": RULES}).warnings

    assert found == ((f"a.yaml:1: site s: {told}",) if told else ())


@pytest.mark.parametrize(
    ("deny", "hpc", "told"),
    [
        ("when: job.cpus > 64", "when: job.cpus > 4", ""),
        ("when: job.memory > 64", "when: job.memory > 4", ""),
        ("when: job.memory > 64", "when: job.memory > 4, figures: {memory: requests}", ""),
        ("when: job.gpus > 1", "when: job.cpus > 4, figures: {cpus: limits}", ""),
        ("mode: audit, when: job.cpus > 64", "when: job.cpus > 4, figures: {cpus: limits}", ""),
        ("when: job.cpus > 64", "when: job.cpus > 4, figures: {cpus: limits}", "cpus"),
        ("when: job.totalMemory > 64, figures: {memory: requests}", "when: job.cpus > 4", "memory"),
    ],
)
def test_a_rule_that_denies_by_less_than_a_later_rule_asks_for_is_told(deny: str, hpc: str, told: str) -> None:
    rules = f"rules:\n  - {{name: most, {deny}, deny: not here}}\n  - {{name: r, {hpc}, hpc: [{{queue: big}}]}}\n{REST}"

    found = policy.load({"a.yaml": SITES, "b.yaml": ACCOUNTS, "c.yaml": rules}).warnings

    warning = (
        f"c.yaml:2: rule most: it denies by the requests for {told}, and rule r (c.yaml:3) asks the batch system for the limits, "
        f"which may be more; write figures: {{{told}: limits}} into rule most"
    )
    assert found == ((warning,) if told else ())


def test_defaults_of_rules_stand_in_one_file_only() -> None:
    text = "ruleDefaults: {kueue: true}\n"

    assert problems_of({"a.yaml": text, "b.yaml": text, "c.yaml": RULES}) == [
        "b.yaml:1:1: ruleDefaults already stands in a.yaml:1; the files are joined, so write it once"
    ]
