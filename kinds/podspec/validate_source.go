package podspec

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Source is one type of volume. Lists of them are in the order that decides which of several is one too many.
type Source struct {
	Field  string // of the Go type
	Inside string // what errors inside of it call it, where that is not the field's name
	Extra  string // what the error calls it that it is one too many, where that is not the field's name
	Beside bool   // may stand beside another one
}

// podSources are the types of volumes of pods. Some have two names in errors: clients know them so.
var podSources = []Source{{Field: "EmptyDir"}, {Field: "HostPath"}, {Field: "GitRepo"},
	{Field: "GCEPersistentDisk", Inside: "persistentDisk"},
	{Field: "AWSElasticBlockStore"}, {Field: "Secret"}, {Field: "NFS"}, {Field: "ISCSI"}, {Field: "Glusterfs"}, {Field: "Flocker"},
	{Field: "PersistentVolumeClaim"}, {Field: "RBD"}, {Field: "Cinder"}, {Field: "CephFS", Extra: "cephFS"}, {Field: "Quobyte"},
	{Field: "DownwardAPI", Extra: "downwarAPI"}, {Field: "FC"}, {Field: "FlexVolume"}, {Field: "ConfigMap"}, {Field: "AzureFile"},
	{Field: "VsphereVolume"}, {Field: "PhotonPersistentDisk"}, {Field: "PortworxVolume"}, {Field: "AzureDisk"}, {Field: "StorageOS"},
	{Field: "Projected"}, {Field: "ScaleIO"}, {Field: "CSI"}, {Field: "Ephemeral"}, {Field: "Image"}}

// given returns, in order, which of the sources are there. Of thirty it is one, as a rule: to look for each by its name would take longer
// than all other checks of a pod.
func given(v reflect.Value, order []Source) (list []int) {
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			continue
		}
		name := v.Type().Field(i).Name
		if at := slices.IndexFunc(order, func(s Source) bool { return s.Field == name }); at >= 0 {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	return list
}

// OneSource checks that a struct of pointers, which v points to, names exactly one source, and checks that one.
func OneSource(v any, order []Source, path *field.Path, check func(s any, at *field.Path) field.ErrorList) (errs field.ErrorList) {
	n, value := 0, reflect.ValueOf(v).Elem()
	for _, i := range given(value, order) {
		s := order[i]
		source := value.FieldByName(s.Field)
		if n++; n > 1 && !s.Beside {
			errs = append(errs, field.Forbidden(path.Child(named(value, s.Field, s.Extra)), "may not specify more than 1 volume type"))
			continue
		}
		errs = append(errs, check(source.Interface(), path.Child(named(value, s.Field, s.Inside)))...)
	}
	if n == 0 {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	return errs
}

// named is the name of a field in JSON, unless it goes by another one.
func named(v reflect.Value, name, other string) string {
	if other != "" {
		return other
	}
	f, _ := v.Type().FieldByName(name)
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// onlyFields refuses every other field that is set.
func onlyFields(v any, allowed []string, path *field.Path, says string) (errs field.ErrorList) {
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		if !value.Field(i).IsZero() && !slices.Contains(allowed, name) {
			errs = append(errs, field.Forbidden(path.Child(strings.ToLower(name[:1])+name[1:]), says))
		}
	}
	return errs
}
