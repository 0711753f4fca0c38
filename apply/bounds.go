package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"github.com/kloop-dev/kloop/resource"
)

// What a patch may cost. The libraries go down a path by reading all that lies below it once a level, write a list anew for each element
// that comes or goes, and compare all elements of two lists that are merged.
//
// Unlike Kubernetes, which lets a patch of a megabyte take minutes, patches whose size does not explain what they cost are refused.
const (
	maxRead     = 128 << 20 // bytes
	maxMoved    = 100e6     // elements of lists
	maxCompared = 16e6      // pairs of elements: 2,000 that meet 2,000
)

// boundOperations refuses a JSON patch whose size does not explain what it costs.
func boundOperations(doc, patch []byte, ops jsonpatch.Patch) error {
	deepest, shifts, copies := 0, int64(0), 0
	for _, op := range ops {
		path, _ := op.Path() // one without a path is found out about when it is its turn
		from, _ := op.From()
		deepest = max(deepest, strings.Count(path, "/"), strings.Count(from, "/"))
		if op.Kind() == "copy" {
			copies++
		}
		for _, at := range []string{path, from} {
			if _, err := strconv.Atoi(at[strings.LastIndex(at, "/")+1:]); err == nil && op.Kind() != "test" && op.Kind() != "replace" {
				shifts++
			}
		}
	}
	size := len(doc) + len(patch)
	if size += int(min(maxCopied, int64(copies)*int64(size))); deepest > maxRead/size {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The deepest path of the JSON patch has %d parts, too many for %d bytes", deepest, size))
	}
	if shifts*int64(size) <= maxMoved { // no list is that long
		return nil
	}
	longest := len(ops)
	var tree any
	var values []jsonPatchOp
	if kjson.UnmarshalCaseSensitivePreserveInts(doc, &tree) == nil {
		longest += longestList(tree)
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(patch, &values) == nil {
		most := 0
		for _, op := range values {
			most = max(most, longestList(op.Value))
		}
		longest += most
	}
	if shifts*int64(longest) > maxMoved {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The JSON patch puts %d elements into lists, or takes them away, and the longest list may have %d: use a merge patch", shifts, longest))
	}
	return nil
}

// longestList is the number of elements of the longest list in a tree.
func longestList(tree any) (n int) {
	switch x := tree.(type) {
	case map[string]any:
		for _, v := range x {
			n = max(n, longestList(v))
		}
	case []any:
		n = len(x)
		for _, v := range x {
			n = max(n, longestList(v))
		}
	}
	return n
}

// boundMerges refuses a strategic merge patch that has too many elements of lists compared with each other.
func boundMerges(doc, patch map[string]any, obj resource.Object) error {
	meta, err := strategicpatch.NewPatchMetaFromStruct(obj)
	if err != nil {
		return nil // the library says so
	}
	if n := compared(doc, patch, meta); n > maxCompared {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The strategic merge patch has %d pairs of list elements compared, %d are allowed: use an apply or a merge patch", n, int(maxCompared)))
	}
	return nil
}

// compared counts the pairs of elements that the library compares: a list that is merged has all elements put in order, the old and the
// new.
func compared(doc, patch map[string]any, meta strategicpatch.LookupPatchMeta) (n int64) {
	for key, value := range patch {
		switch x := value.(type) {
		case map[string]any:
			if below, _, err := meta.LookupPatchMetadataForStruct(key); err == nil {
				at, _ := doc[key].(map[string]any)
				n += compared(at, x, below)
			}
		case []any:
			if name, ok := strings.CutPrefix(key, "$setElementOrder/"); ok && patch[name] == nil {
				there, _ := doc[name].([]any)
				n += int64(len(x)+len(there)) * int64(len(there))
				continue
			}
			below, how, err := meta.LookupPatchMetadataForSlice(key)
			if err != nil || !slices.Contains(how.GetPatchStrategies(), "merge") {
				continue
			}
			there, _ := doc[key].([]any)
			all := len(x) + len(there)
			order, _ := patch["$setElementOrder/"+key].([]any)
			n += int64(all+len(order)) * int64(all)
			olds := byKey(there, how.GetPatchMergeKey())
			for _, element := range x {
				if e, ok := element.(map[string]any); ok {
					n += compared(olds[fmt.Sprint(e[how.GetPatchMergeKey()])], e, below)
				}
			}
		}
	}
	return n
}

// byKey are the elements of a list by their merge key.
func byKey(list []any, key string) map[string]map[string]any {
	out := make(map[string]map[string]any, len(list))
	for _, element := range list {
		if e, ok := element.(map[string]any); ok {
			out[fmt.Sprint(e[key])] = e
		}
	}
	return out
}
