package podspec

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// needs asks for values, given as pairs of field name and value.
func needs(path *field.Path, pairs ...string) (errs field.ErrorList) {
	for i := 0; i < len(pairs); i += 2 {
		errs = append(errs, rule.Needed(pairs[i+1], path.Child(pairs[i]))...)
	}
	return errs
}

func needList(list []string, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// ValidateRemote checks the sources that have little to check. Those of persistent volumes that differ from
// those of pods are given as the latter.
func ValidateRemote(s any, path *field.Path) field.ErrorList {
	switch s := s.(type) {
	case *corev1.HostPathVolumeSource:
		return checkHostPath(s, path)
	case *corev1.NFSVolumeSource:
		return checkNFS(s, path)
	case *corev1.ISCSIVolumeSource:
		return checkISCSI(s, path)
	case *corev1.FCVolumeSource:
		return checkFC(s, path)
	case *corev1.AzureDiskVolumeSource:
		return checkAzureDisk(s, path)
	case *corev1.GCEPersistentDiskVolumeSource:
		return append(needs(path, "pdName", s.PDName), checkPartition(s.Partition, path)...)
	case *corev1.AWSElasticBlockStoreVolumeSource:
		return append(needs(path, "volumeID", s.VolumeID), checkPartition(s.Partition, path)...)
	case *corev1.GlusterfsVolumeSource:
		return needs(path, "endpoints", s.EndpointsName, "path", s.Path)
	case *corev1.RBDVolumeSource:
		return append(needList(s.CephMonitors, path.Child("monitors")), needs(path, "image", s.RBDImage)...)
	case *corev1.CephFSVolumeSource:
		return needList(s.Monitors, path.Child("monitors"))
	case *corev1.CinderVolumeSource:
		return append(needs(path, "volumeID", s.VolumeID), checkRefName(s.SecretRef, path.Child("secretRef"))...)
	case *corev1.FlockerVolumeSource:
		return checkFlocker(s, path)
	case *corev1.FlexVolumeSource:
		return append(needs(path, "driver", s.Driver), checkFlexOptions(s.Options, path.Child("options"))...)
	case *corev1.AzureFileVolumeSource:
		return needs(path, "secretName", s.SecretName, "shareName", s.ShareName)
	case *corev1.VsphereVirtualDiskVolumeSource:
		return needs(path, "volumePath", s.VolumePath)
	case *corev1.PhotonPersistentDiskVolumeSource:
		return needs(path, "pdID", s.PdID)
	case *corev1.PortworxVolumeSource:
		return needs(path, "volumeID", s.VolumeID)
	case *corev1.QuobyteVolumeSource:
		return append(checkQuobyte(s, path), needs(path, "volume", s.Volume)...)
	case *corev1.ScaleIOVolumeSource:
		return needs(path, "gateway", s.Gateway, "system", s.System, "volumeName", s.VolumeName)
	case *corev1.StorageOSVolumeSource:
		errs := rule.NeededFormat(s.VolumeName, path.Child("volumeName"), rule.Label)
		if s.VolumeNamespace != "" {
			errs = append(errs, rule.Format(s.VolumeNamespace, path.Child("volumeNamespace"), rule.Label)...)
		}
		return append(errs, checkRefName(s.SecretRef, path.Child("secretRef"))...)
	}
	return nil
}

func checkPartition(n int32, path *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(path.Child("partition"), n, "must be between 1 and 255, inclusive")} // 0: not given
	}
	return nil
}

var (
	iqnName = regexp.MustCompile(`^iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`)
	euiName = regexp.MustCompile(`^eui.[[:alnum:]]{16}$`)
	naaName = regexp.MustCompile(`^naa.[[:alnum:]]{32}$`)
)

func checkISCSI(s *corev1.ISCSIVolumeSource, path *field.Path) field.ErrorList {
	errs := needs(path, "targetPortal", s.TargetPortal, "iqn", s.IQN)
	if s.IQN != "" {
		errs = append(errs, iscsiName(s.IQN, path.Child("iqn"))...)
	}
	errs = append(errs, rule.Within(s.Lun, 0, 255, path.Child("lun"))...)
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		errs = append(errs, field.Required(path.Child("secretRef"), ""))
	}
	if s.InitiatorName != nil {
		errs = append(errs, iscsiName(*s.InitiatorName, path.Child("initiatorname"))...)
	}
	return errs
}

func iscsiName(name string, path *field.Path) field.ErrorList {
	switch {
	case iqnName.MatchString(name) || euiName.MatchString(name) || naaName.MatchString(name):
		return nil
	case strings.HasPrefix(name, "iqn") || strings.HasPrefix(name, "eui") || strings.HasPrefix(name, "naa"):
		return field.ErrorList{field.Invalid(path, name, "must be valid format")}
	}
	return field.ErrorList{field.Invalid(path, name, "must be valid format starting with iqn, eui, or naa")}
}

func checkFC(s *corev1.FCVolumeSource, path *field.Path) (errs field.ErrorList) {
	names, ids := len(s.TargetWWNs), len(s.WWIDs)
	switch {
	case names == 0 && ids == 0:
		errs = append(errs, field.Required(path.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
	case names > 0 && ids > 0:
		errs = append(errs, field.Invalid(path.Child("targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	switch {
	case names > 0 && s.Lun == nil:
		errs = append(errs, field.Required(path.Child("lun"), "lun is required if targetWWNs is specified"))
	case names > 0:
		errs = append(errs, rule.Within(*s.Lun, 0, 255, path.Child("lun"))...)
	}
	return errs
}

// checkFlexOptions leaves the options of Kubernetes' own domains to Kubernetes.
func checkFlexOptions(options map[string]string, path *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(options)) {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			errs = append(errs, field.Invalid(path.Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

func checkQuobyte(s *corev1.QuobyteVolumeSource, path *field.Path) (errs field.ErrorList) {
	at, says := path.Child("registry"), "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case s.Registry == "":
		return field.ErrorList{field.Required(at, says)}
	case len(s.Tenant) > 64:
		return field.ErrorList{field.Required(path.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters")}
	}
	for _, pair := range strings.Split(s.Registry, ",") {
		if _, _, err := net.SplitHostPort(pair); err != nil {
			errs = append(errs, field.Invalid(at, s.Registry, says))
		}
	}
	return errs
}

func checkFlocker(s *corev1.FlockerVolumeSource, path *field.Path) (errs field.ErrorList) {
	switch {
	case s.DatasetName == "" && s.DatasetUUID == "":
		errs = append(errs, field.Required(path, "one of datasetName and datasetUUID is required"))
	case s.DatasetName != "" && s.DatasetUUID != "":
		errs = append(errs, field.Invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(s.DatasetName, "/") {
		errs = append(errs, field.Invalid(path.Child("datasetName"), s.DatasetName, "must not contain '/'"))
	}
	return errs
}

func checkAzureDisk(s *corev1.AzureDiskVolumeSource, path *field.Path) field.ErrorList {
	errs := needs(path, "diskName", s.DiskName, "diskURI", s.DataDiskURI)
	errs = append(errs, rule.AmongPtr(s.CachingMode, path.Child("cachingMode"), corev1.AzureDataDiskCachingNone,
		corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	errs = append(errs, rule.AmongPtr(s.Kind, path.Child("kind"), corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk,
		corev1.AzureManagedDisk)...)
	if s.Kind == nil {
		return errs
	}
	start, form := "https://", "{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *s.Kind == corev1.AzureManagedDisk {
		start, form = "/subscriptions/", "{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(s.DataDiskURI, start) {
		errs = append(errs, field.NotSupported(path.Child("diskURI"), s.DataDiskURI, []string{start + form}))
	}
	return errs
}
