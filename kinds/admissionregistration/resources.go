package admissionregistration

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resources checks names like pods, pods/log, */scale, pods/* and refuses what others in the list cover.
func resources(list []string, path *field.Path) (errs field.ErrorList) {
	all, subsOfAll, allSubs := false, map[string]bool{}, map[string]bool{}
	for i, full := range list {
		if full == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		}
		res, sub, nested := strings.Cut(full, "/")
		switch {
		case full == "*/*":
			all = true
		case nested && res == "*":
			subsOfAll[sub] = true
		case nested && sub == "*":
			allSubs[res] = true
		}
		switch {
		case nested && res == "":
			errs = append(errs, field.Invalid(path.Index(i), full, "resource must not be empty"))
		case nested && strings.Contains(sub, "/"):
			errs = append(errs, field.Invalid(path.Index(i), full, "must have at most one slash"))
		}
	}
	if len(list) > 1 && all {
		errs = append(errs, field.Invalid(path, list, "if '*/*' is present, must not specify other resources"))
	}
	for i, full := range list {
		res, sub, nested := strings.Cut(full, "/")
		if !nested {
			continue
		}
		if res != "*" && subsOfAll[sub] {
			errs = append(errs, field.Invalid(path.Index(i), full, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, full)))
		}
		if sub != "*" && allSubs[res] {
			errs = append(errs, field.Invalid(path.Index(i), full, fmt.Sprintf("if '%s/*' is present, must not specify %s", res, full)))
		}
	}
	return errs
}
