"""Plays Jobs through a policy and a model of its queues: what would wait, how full queues would be, what the cloud gets.

Pure. The Jobs come from ``router.replay`` or from a trace in the Standard Workload Format. Each is judged by
``router.policy`` with the queues as they are in the model at that moment. A batch system is modelled by EASY backfilling
on equal nodes; what the model leaves out is in ``words.LEAVES_OUT``.
"""
