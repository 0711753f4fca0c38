package dra

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// noLimit is the limit of lists that have none.
const noLimit = 1 << 30

// each checks every entry of a list. Of one that is too long only that is reported: its sender does not get to keep the
// server busy.
func each[T any](list []T, most int, path *field.Path, check func(T, *field.Path) field.ErrorList) (errs field.ErrorList) {
	if len(list) > most {
		return field.ErrorList{field.TooMany(path, len(list), most)}
	}
	for i, v := range list {
		errs = append(errs, check(v, path.Index(i))...)
	}
	return errs
}

// unlike is each for a list whose entries must differ in their keys.
func unlike[T any, K comparable](list []T, most int, path *field.Path, key func(T) K, check func(T,
	*field.Path) field.ErrorList) field.ErrorList {
	errs := each(list, most, path, check)
	if len(list) > most {
		return errs
	}
	keys := make([]K, len(list))
	for i, v := range list {
		keys[i] = key(v)
	}
	return append(errs, rule.Duplicates(keys, path.Index)...)
}

func itself(s string) string { return s }

// entries checks names and values of a map, in the order of the names. Errors of names stand at the map, those of values at the
// entry, whose name loses its middle if it is too long.
func entries[K ~string, V any](m map[K]V, most int, path *field.Path, name func(string, *field.Path) field.ErrorList,
	check func(V, *field.Path) field.ErrorList,
) (errs field.ErrorList) {
	if len(m) > most {
		return field.ErrorList{field.TooMany(path, len(m), most)}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		errs = append(errs, name(string(k), path)...)
		if check != nil {
			errs = append(errs, check(m[k], path.Key(shortened(string(k), longestKey)))...)
		}
	}
	return errs
}

// shortened leaves out the middle of a text that is too long.
func shortened(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	const gap = "..."
	rest := longest - len(gap)
	return s[:(rest+1)/2] + gap + s[len(s)-rest/2:]
}
