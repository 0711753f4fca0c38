package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// What a pod can tell its containers of itself: by variables, and by files.
var (
	envFields = sets.New("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	fileFields = sets.New("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid")
	podFields  = envFields.Union(fileFields).Insert("spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host")

	amountFields = sets.New("limits.cpu", "limits.memory", "limits.ephemeral-storage",
		"requests.cpu", "requests.memory", "requests.ephemeral-storage")
)

// byteDivisors are the units that amounts of bytes may have.
const byteDivisors = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"

// divisors returns the units that an amount may have, as errors list them, and the name that the amount has there.
func divisors(amount string) (allowed, named string) {
	switch _, name, _ := strings.Cut(amount, "."); name {
	case "cpu":
		return "1m and 1", "cpu"
	case "memory":
		return byteDivisors, "memory"
	case "ephemeral-storage":
		return byteDivisors, "local ephemeral storage"
	}
	return byteDivisors, "hugepages"
}

func checkEnv(vars []corev1.EnvVar, path *field.Path) (errs field.ErrorList) {
	for i := range vars {
		errs = append(errs, rule.NeededFormat(vars[i].Name, path.Index(i).Child("name"), utilvalidation.IsRelaxedEnvVarName)...)
		if vars[i].ValueFrom != nil {
			errs = append(errs, checkEnvSource(&vars[i], path.Index(i).Child("valueFrom"))...)
		}
	}
	return errs
}

func checkEnvSource(e *corev1.EnvVar, path *field.Path) (errs field.ErrorList) {
	n, from := 0, e.ValueFrom
	if r := from.FieldRef; r != nil {
		n++
		errs = append(errs, checkFieldRef(r, envFields, path.Child("fieldRef"))...)
	}
	if r := from.ResourceFieldRef; r != nil {
		n++
		errs = append(errs, checkAmountRef(r, false, path.Child("resourceFieldRef"))...)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		n++
		errs = append(errs, checkKeyRef(r.Name, r.Key, path.Child("configMapKeyRef"))...)
	}
	if r := from.SecretKeyRef; r != nil {
		n++
		errs = append(errs, checkKeyRef(r.Name, r.Key, path.Child("secretKeyRef"))...)
	}
	if r := from.FileKeyRef; r != nil {
		n++
		errs = append(errs, checkFileRef(r, path.Child("fileKeyRef"))...)
	}
	switch {
	case n == 0:
		errs = append(errs, field.Invalid(path, "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case e.Value != "":
		errs = append(errs, field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case n > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func checkKeyRef(name, key string, path *field.Path) field.ErrorList {
	errs := rule.Format(name, path.Child("name"), rule.Subdomain)
	return append(errs, rule.NeededFormat(key, path.Child("key"), utilvalidation.IsConfigMapKey)...)
}

func checkFileRef(r *corev1.FileKeySelector, path *field.Path) field.ErrorList {
	errs := rule.NeededFormat(r.Key, path.Child("key"), utilvalidation.IsRelaxedEnvVarName)
	errs = append(errs, rule.NeededFormat(r.VolumeName, path.Child("volumeName"), rule.Label)...)
	if r.Path == "" {
		return append(errs, field.Required(path.Child("path"), ""))
	}
	return append(errs, checkBacksteps(r.Path, path.Child("path"))...)
}

// checkFileVolumes: files with variables lie in empty directories only, which another container has filled.
func checkFileVolumes(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	volumes := make(map[string]*corev1.Volume, len(s.Volumes))
	for i := range slices.Backward(s.Volumes) { // the first of a name
		volumes[s.Volumes[i].Name] = &s.Volumes[i]
	}
	eachContainer(s, path, func(c *corev1.Container, spot spot) {
		for i, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.FileKeyRef == nil {
				continue
			}
			name, at := e.ValueFrom.FileKeyRef.VolumeName, spot.path().Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			switch v := volumes[name]; {
			case v == nil:
				errs = append(errs, field.NotFound(at, name))
			case v.EmptyDir == nil:
				errs = append(errs, field.Invalid(at, name, "referenced volume must be of type emptyDir"))
			}
		}
	})
	return errs
}

// checkFieldRef checks a reference to a field of the pod.
func checkFieldRef(r *corev1.ObjectFieldSelector, allowed sets.Set[string], path *field.Path) field.ErrorList {
	if r.APIVersion == "v1" && allowed.Has(r.FieldPath) {
		return nil
	}
	at := path.Child("fieldPath")
	switch {
	case r.APIVersion == "":
		return field.ErrorList{field.Required(path.Child("apiVersion"), "")}
	case r.FieldPath == "":
		return field.ErrorList{field.Required(at, "")}
	case r.APIVersion != "v1":
		return field.ErrorList{field.Invalid(at, r.FieldPath, "error converting fieldPath: unsupported pod version: "+r.APIVersion)}
	}
	if base, key, ok := subscripted(r.FieldPath); ok {
		switch base {
		case "metadata.annotations":
			return rule.Says(utilvalidation.IsQualifiedName(strings.ToLower(key)), key, path)
		case "metadata.labels":
			return rule.Says(utilvalidation.IsQualifiedName(key), key, path)
		}
		return field.ErrorList{field.Invalid(at, r.FieldPath, "error converting fieldPath: field label does not support subscript: "+r.FieldPath)}
	}
	switch {
	case !podFields.Has(r.FieldPath):
		return field.ErrorList{field.Invalid(at, r.FieldPath, "error converting fieldPath: field label not supported: "+r.FieldPath)}
	case !allowed.Has(r.FieldPath) && (r.FieldPath != "spec.host" || !allowed.Has("spec.nodeName")):
		return field.ErrorList{field.NotSupported(at, r.FieldPath, sets.List(allowed))}
	}
	return nil
}

// subscripted takes a path like metadata.labels['key'] apart.
func subscripted(path string) (base, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	base, key, ok = strings.Cut(rest, "['")
	if !ok || base == "" {
		return path, "", false
	}
	return base, key, true
}

// checkAmountRef checks a reference to a request or limit of a container; a file must say of which.
func checkAmountRef(r *corev1.ResourceFieldSelector, file bool, path *field.Path) (errs field.ErrorList) {
	pages := strings.HasPrefix(r.Resource, "limits.hugepages-") || strings.HasPrefix(r.Resource, "requests.hugepages-")
	switch {
	case file && r.ContainerName == "":
		errs = append(errs, field.Required(path.Child("containerName"), ""))
	case r.Resource == "":
		errs = append(errs, field.Required(path.Child("resource"), ""))
	case !amountFields.Has(r.Resource) && !pages:
		errs = append(errs, field.NotSupported(path.Child("resource"), r.Resource, sets.List(amountFields)))
	}
	if r.Divisor.Cmp(resource.Quantity{}) == 0 {
		return errs
	}
	allowed, named := divisors(r.Resource)
	among := strings.FieldsFunc(strings.Replace(allowed, " and ", ", ", 1), func(c rune) bool { return c == ',' || c == ' ' })
	if (amountFields.Has(r.Resource) || pages) && !slices.Contains(among, r.Divisor.String()) {
		errs = append(errs, field.Invalid(path.Child("divisor"), r.Resource,
			"only divisor's values "+allowed+" are supported with the "+named+" resource"))
	}
	return errs
}

// anyPrefix is the format of what may begin the name of an object.
func anyPrefix(v string) []string { return validation.NameIsDNSSubdomain(v, true) }

func checkEnvFrom(list []corev1.EnvFromSource, path *field.Path) (errs field.ErrorList) {
	for i, e := range list {
		at := path.Index(i)
		if e.Prefix != "" {
			errs = append(errs, rule.Format(e.Prefix, at.Child("prefix"), utilvalidation.IsRelaxedEnvVarName)...)
		}
		if e.ConfigMapRef != nil {
			errs = append(errs, rule.NeededFormat(e.ConfigMapRef.Name, at.Child("configMapRef", "name"), anyPrefix)...)
		}
		if e.SecretRef != nil {
			errs = append(errs, rule.NeededFormat(e.SecretRef.Name, at.Child("secretRef", "name"), anyPrefix)...)
		}
		switch {
		case e.ConfigMapRef == nil && e.SecretRef == nil:
			errs = append(errs, field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case e.ConfigMapRef != nil && e.SecretRef != nil:
			errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}
