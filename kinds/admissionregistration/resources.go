package admissionregistration

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resources checks names like pods, pods/log, */scale, pods/* and refuses what others in the list cover. A wildcard
// covers only what comes after it.
func resources(list []string, path *field.Path) (errs field.ErrorList) {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	all, single, plain := false, false, false
	ofAll, allOf := map[string]bool{}, map[string]bool{} // subresources of every resource, resources with every subresource
	for i, full := range list {
		res, sub, nested := strings.Cut(full, "/")
		all, single = all || full == "*/*", single || full == "*"
		switch {
		case full == "":
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		case !nested:
			plain = full != "*"
			continue
		}
		if allOf[res] {
			errs = append(errs, field.Invalid(path.Index(i), full, fmt.Sprintf("if '%s/*' is present, must not specify %s", res, full)))
		}
		if ofAll[sub] {
			errs = append(errs, field.Invalid(path.Index(i), full, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, full)))
		}
		allOf[res], ofAll[sub] = allOf[res] || sub == "*", ofAll[sub] || res == "*"
	}
	if len(list) > 1 && all {
		errs = append(errs, field.Invalid(path, list, "if '*/*' is present, must not specify other resources"))
	}
	if single && plain {
		errs = append(errs, field.Invalid(path, list, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
