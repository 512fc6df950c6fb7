"""The fields of volumes, with every kind of source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.reference.rows import Row, Rows, above, cloud, harmless, honoured, parts, translated

_SECRET: Final = "needs Secret …"  # noqa: S105 - a sentence
_MAPPED: Final = "the directory that the site's `volumes` give"
_ENTRY: Final = "…; its admins can add an entry with … to volumes of …"
_NO_CLAIM: Final = "no claim is made: the volume is a directory of the Pod"
_SOURCE: Final = "is a source that HPC nodes do not have"
_DATA: Final = "starts with the data of another volume or snapshot"
_NO_CREDENTIAL: Final = "the site's own files need no credential of the cluster"


def _not_on_hpc(kind: str, holds: str) -> Row:
    return cloud(f"is a volume of kind {kind}, which HPC nodes do not have", holds)


_NOT_ON_HPC: Final = {
    "awsElasticBlockStore": "AWSElasticBlockStoreVolumeSource",
    "azureDisk": "AzureDiskVolumeSource",
    "azureFile": "AzureFileVolumeSource",
    "cephfs": "CephFSVolumeSource",
    "cinder": "CinderVolumeSource",
    "fc": "FCVolumeSource",
    "flexVolume": "FlexVolumeSource",
    "flocker": "FlockerVolumeSource",
    "gcePersistentDisk": "GCEPersistentDiskVolumeSource",
    "gitRepo": "GitRepoVolumeSource",
    "glusterfs": "GlusterfsVolumeSource",
    "iscsi": "ISCSIVolumeSource",
    "photonPersistentDisk": "PhotonPersistentDiskVolumeSource",
    "portworxVolume": "PortworxVolumeSource",
    "quobyte": "QuobyteVolumeSource",
    "rbd": "RBDVolumeSource",
    "scaleIO": "ScaleIOVolumeSource",
    "storageos": "StorageOSVolumeSource",
    "vsphereVolume": "VsphereVirtualDiskVolumeSource",
}

_VOLUME: Final[Rows] = {
    "name": honoured("for mounts"),
    "configMap": honoured("as files in the Pod's directory; they do not change while it runs", "ConfigMapVolumeSource"),
    "csi": translated(_MAPPED, "CSIVolumeSource", kept=_ENTRY),
    "downwardAPI": honoured(
        "as files in the Pod's directory; they do not change while it runs", "DownwardAPIVolumeSource"
    ),
    "emptyDir": honoured("a directory of the Pod, on the site's file system", "EmptyDirVolumeSource"),
    "ephemeral": translated(
        "a directory of the Pod, on the site's file system",
        "EphemeralVolumeSource",
        warned="is a directory of the Pod on HPC",
    ),
    "hostPath": translated(_MAPPED, "HostPathVolumeSource", kept=_ENTRY),
    "image": translated(_MAPPED, "ImageVolumeSource", kept=_ENTRY),
    "nfs": translated(_MAPPED, "NFSVolumeSource", kept=_ENTRY),
    "persistentVolumeClaim": translated(_MAPPED, "PersistentVolumeClaimVolumeSource", kept=_ENTRY),
    "projected": honoured("as files in the Pod's directory; they do not change while it runs", "ProjectedVolumeSource"),
    "secret": honoured(
        "where the site has `secrets: stage`, as files in the Pod's directory; they do not change while it runs",
        "SecretVolumeSource",
        kept=_SECRET,
    ),
    **{kind: _not_on_hpc(kind, holds) for kind, holds in _NOT_ON_HPC.items()},
}

_HERE: Final[Mapping[str, Rows]] = {
    "ConfigMapVolumeSource": above("defaultMode", "name", "optional", items="KeyToPath"),
    "SecretVolumeSource": above("defaultMode", "optional", "secretName", items="KeyToPath"),
    "DownwardAPIVolumeSource": above("defaultMode", items="DownwardAPIVolumeFile"),
    "DownwardAPIVolumeFile": above(
        "mode", "path", fieldRef="ObjectFieldSelector", resourceFieldRef="ResourceFieldSelector"
    ),
    "KeyToPath": above("key", "mode", "path"),
    "EmptyDirVolumeSource": {
        "medium": harmless(
            "`Memory` lies on disk; a mount at `/dev/shm` is the node's own memory",
            kept="needs a file system of huge pages, which no HPC user mounts",
            warned="only a mount at /dev/shm is memory there",
        ),
        "sizeLimit": harmless("the site's quotas hold", warned="not enforced on HPC"),
    },
    "ProjectedVolumeSource": {**above("defaultMode"), "sources": parts("VolumeProjection")},
    "VolumeProjection": {
        "clusterTrustBundle": cloud(_SOURCE, "ClusterTrustBundleProjection"),
        "configMap": honoured("as files", "ConfigMapProjection"),
        "downwardAPI": honoured("as files", "DownwardAPIProjection"),
        "podCertificate": cloud(_SOURCE, "PodCertificateProjection", since=34),
        "secret": honoured("as files, where the site has `secrets: stage`", "SecretProjection", kept=_SECRET),
        "serviceAccountToken": honoured(
            "as a file that is renewed, where the site has `tokens: stage`",
            "ServiceAccountTokenProjection",
            kept="is a token of a service account, and tokens of site … is cloud; its admin could set stage",
        ),
    },
    "ClusterTrustBundleProjection": above("name", "optional", "path", "signerName", labelSelector="LabelSelector"),
    "ConfigMapProjection": above("name", "optional", items="KeyToPath"),
    "DownwardAPIProjection": above(items="DownwardAPIVolumeFile"),
    "PodCertificateProjection": {
        **above(
            "certificateChainPath",
            "credentialBundlePath",
            "keyPath",
            "keyType",
            "maxExpirationSeconds",
            "signerName",
            since=34,
        ),
        **above("userAnnotations", since=35),
    },
    "SecretProjection": above("name", "optional", items="KeyToPath"),
    "ServiceAccountTokenProjection": above("audience", "expirationSeconds", "path"),
    "EphemeralVolumeSource": {"volumeClaimTemplate": parts("PersistentVolumeClaimTemplate")},
    "PersistentVolumeClaimTemplate": {
        "metadata": harmless(_NO_CLAIM, "ObjectMeta"),
        "spec": parts("PersistentVolumeClaimSpec"),
    },
    "PersistentVolumeClaimSpec": {
        "accessModes": harmless(_NO_CLAIM),
        "dataSource": cloud(_DATA, "TypedLocalObjectReference"),
        "dataSourceRef": cloud(_DATA, "TypedObjectReference"),
        "resources": harmless(
            "the site's quotas hold", "VolumeResourceRequirements", warned="that it asks for being set aside"
        ),
        "selector": cloud("chooses among volumes of the cluster, whose data are not on HPC", "LabelSelector"),
        "storageClassName": harmless(_NO_CLAIM),
        "volumeAttributesClassName": harmless(_NO_CLAIM),
        "volumeMode": harmless(
            "`Filesystem` is what it has", kept="needs a block device of the cluster", usual="Filesystem"
        ),
        "volumeName": cloud("names a volume of the cluster, whose data are not on HPC"),
    },
    "TypedLocalObjectReference": above("apiGroup", "kind", "name"),
    "TypedObjectReference": above("apiGroup", "kind", "name", "namespace"),
    "VolumeResourceRequirements": above("limits", "requests"),
    "CSIVolumeSource": {
        **above("driver", "readOnly", "volumeAttributes"),
        "fsType": harmless("nothing is formatted on HPC"),
        "nodePublishSecretRef": harmless(_NO_CREDENTIAL, "LocalObjectReference"),
    },
    "HostPathVolumeSource": {
        **above("path"),
        "type": harmless(
            "what lies at the path is the site's; a container whose path is missing does not start",
            kept="asks for a … of its node (type …), which HPC nodes do not have",
            warned="nothing is made on HPC",
        ),
    },
    "ImageVolumeSource": {**above("reference"), "pullPolicy": harmless("nothing is pulled: the files are the site's")},
    "NFSVolumeSource": above("path", "readOnly", "server"),
    "PersistentVolumeClaimVolumeSource": above("claimName", "readOnly"),
}

_ELSEWHERE: Final[Mapping[str, Rows]] = {
    "AWSElasticBlockStoreVolumeSource": above("fsType", "partition", "readOnly", "volumeID"),
    "AzureDiskVolumeSource": above("cachingMode", "diskName", "diskURI", "fsType", "kind", "readOnly"),
    "AzureFileVolumeSource": above("readOnly", "secretName", "shareName"),
    "CephFSVolumeSource": above("monitors", "path", "readOnly", "secretFile", "user", secretRef="LocalObjectReference"),
    "CinderVolumeSource": above("fsType", "readOnly", "volumeID", secretRef="LocalObjectReference"),
    "FCVolumeSource": above("fsType", "lun", "readOnly", "targetWWNs", "wwids"),
    "FlexVolumeSource": above("driver", "fsType", "options", "readOnly", secretRef="LocalObjectReference"),
    "FlockerVolumeSource": above("datasetName", "datasetUUID"),
    "GCEPersistentDiskVolumeSource": above("fsType", "partition", "pdName", "readOnly"),
    "GitRepoVolumeSource": above("directory", "repository", "revision"),
    "GlusterfsVolumeSource": above("endpoints", "path", "readOnly"),
    "ISCSIVolumeSource": above(
        "chapAuthDiscovery",
        "chapAuthSession",
        "fsType",
        "initiatorName",
        "iqn",
        "iscsiInterface",
        "lun",
        "portals",
        "readOnly",
        "targetPortal",
        secretRef="LocalObjectReference",
    ),
    "PhotonPersistentDiskVolumeSource": above("fsType", "pdID"),
    "PortworxVolumeSource": above("fsType", "readOnly", "volumeID"),
    "QuobyteVolumeSource": above("group", "readOnly", "registry", "tenant", "user", "volume"),
    "RBDVolumeSource": above(
        "fsType", "image", "keyring", "monitors", "pool", "readOnly", "user", secretRef="LocalObjectReference"
    ),
    "ScaleIOVolumeSource": above(
        "fsType",
        "gateway",
        "protectionDomain",
        "readOnly",
        "sslEnabled",
        "storageMode",
        "storagePool",
        "system",
        "volumeName",
        secretRef="LocalObjectReference",
    ),
    "StorageOSVolumeSource": above(
        "fsType", "readOnly", "volumeName", "volumeNamespace", secretRef="LocalObjectReference"
    ),
    "VsphereVirtualDiskVolumeSource": above("fsType", "storagePolicyID", "storagePolicyName", "volumePath"),
}
"""Sources that need the cluster or its cloud."""

TYPES: Final[Mapping[str, Rows]] = {"Volume": _VOLUME, **_HERE, **_ELSEWHERE}
"""Rows by type."""
