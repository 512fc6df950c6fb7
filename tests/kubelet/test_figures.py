from __future__ import annotations

from router.kubelet.figures import ContainerUsage, NodeUsage, PodUsage, Usage, resource_metrics, summary

KNOWN = PodUsage(
    "ada",
    "known",
    "uid-1",
    1_700_000_000.5,
    Usage(1_700_000_060.75, 12.5, 4096),
    (ContainerUsage("main", 1_700_000_001.25, Usage(1_700_000_060.75, 12.5, 4096)),),
)
PARTLY = PodUsage(
    "ada",
    "partly",
    "uid-2",
    1_700_000_000,
    Usage(1_700_000_060, memory_bytes=8192),
    (ContainerUsage("main", 1_700_000_002), ContainerUsage("side", 1_700_000_003)),
)
UNKNOWN = PodUsage("bob", "unknown", "uid-3", 1_700_000_000)
NODE = NodeUsage("batch.demo.batchgate", 1_699_999_999, (KNOWN, PARTLY, UNKNOWN))


def test_the_summary_holds_what_is_known_and_nothing_else() -> None:
    cpu = {"time": "2023-11-14T22:14:20Z", "usageCoreNanoSeconds": 12_500_000_000}
    memory = {"time": "2023-11-14T22:14:20Z", "workingSetBytes": 4096}
    start = "2023-11-14T22:13:20Z"

    assert summary(NODE) == {
        "node": {"nodeName": "batch.demo.batchgate", "startTime": "2023-11-14T22:13:19Z"},
        "pods": [
            {
                "podRef": {"name": "known", "namespace": "ada", "uid": "uid-1"},
                "startTime": start,
                "containers": [
                    {"name": "main", "startTime": "2023-11-14T22:13:21Z", "cpu": cpu, "memory": memory},
                ],
                "cpu": cpu,
                "memory": memory,
            },
            {
                "podRef": {"name": "partly", "namespace": "ada", "uid": "uid-2"},
                "startTime": start,
                "containers": [
                    {"name": "main", "startTime": "2023-11-14T22:13:22Z"},
                    {"name": "side", "startTime": "2023-11-14T22:13:23Z"},
                ],
                "memory": {"time": "2023-11-14T22:14:20Z", "workingSetBytes": 8192},
            },
            {
                "podRef": {"name": "unknown", "namespace": "bob", "uid": "uid-3"},
                "startTime": start,
                "containers": [],
            },
        ],
    }


def test_the_metrics_are_the_kubelets() -> None:
    lines = resource_metrics(NODE).decode().splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        'pod_cpu_usage_seconds_total{namespace="ada",pod="known"} 12.5 1700000060750',
        'pod_memory_working_set_bytes{namespace="ada",pod="known"} 4096.0 1700000060750',
        'pod_memory_working_set_bytes{namespace="ada",pod="partly"} 8192.0 1700000060000',
        'container_cpu_usage_seconds_total{container="main",namespace="ada",pod="known"} 12.5 1700000060750',
        'container_memory_working_set_bytes{container="main",namespace="ada",pod="known"} 4096.0 1700000060750',
        # With figures of the job, the Pod's own start.
        'container_start_time_seconds{container="main",namespace="ada",pod="known"} 1.7000000005e+09',
        'container_start_time_seconds{container="main",namespace="ada",pod="partly"} 1.700000002e+09',
        'container_start_time_seconds{container="side",namespace="ada",pod="partly"} 1.700000003e+09',
        "resource_scrape_error 0.0",
    ]
    assert "# TYPE container_cpu_usage_seconds_total counter" in lines
    assert "# TYPE pod_memory_working_set_bytes gauge" in lines
