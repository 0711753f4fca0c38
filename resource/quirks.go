package resource

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Quirks list how a kind differs from most where nothing else about it says so. Upstream's kinds grew that way, and clients can
// tell. The zero value describes most kinds.
type Quirks struct {
	NeedsRevision         bool // an update must say which revision it replaces
	DeleteReturnsObject   bool // the answer to a deletion is the last state, not a Status
	GenerateNameLiteral   bool // generateName is the name: there is no other
	SkipGenerateNameCheck bool // a bad generateName is reported by the name that was made of it, or when all else is well
	MetaErrorsOnce        bool // a changed uid or the like is reported once; of others both the generic rules and the kind's own tell
	MetaErrorsAgain       bool // an update has errors of a new object's metadata twice; one of the status those of a changed uid
	MetaUpdateOnly        bool // an update is held only to the rules that updates have for metadata, not again to those of new objects
	MetaUpdateOnly37      bool // and is so since 1.37
	MetaNewFirst          bool // of an update's metadata it is said first what a new object's must be, then what may not change
	MetaErrorsLast        bool // a new object's bad metadata is reported only when all else is well
	NameErrorsLast        bool // a new object's bad name is: the kind lets it be called anything
	KeptUnread            bool // an object that can't be read can't be deleted either
	KeepsEmpty            bool // is stored as JSON, which tells an empty list from none
	EmptyCounts           bool // a list or map that is empty, where none was, is a change that the generation counts
	UnqualifiedFinalizers bool // finalizers need not name a domain
	StatusUnchecked       bool // a write of the status is held to the generic rules for metadata alone
	PartsAsNew            bool // a write of a subresource but the status is held to the rules of new objects, too
	StatusAsNew           bool // and a write of the status is
	ErrorsRepeat          bool // errors of two rules that read alike are both in the answer: of other kinds, since 1.37, one
	StatusWithoutTable    bool // the status, asked for as a table, is refused
	Uncached              bool // upstream's servers hold it in no cache: a bad revision to read one at is the caller's fault

	// Planter is the field manager of those objects that a server makes at its start; "": the server itself.
	Planter string

	// Hides is an annotation that only whole objects show: it stands for a field that the version has no longer.
	Hides string
	// Orphaned is the warning that a deletion gets which does not say what is to become of the dependents.
	Orphaned string

	// Unselectable refuses a field label that can't be selected by: a format of the label and of the type that was asked for. ""
	// is that of kinds without labels of their own; kinds that have some get OtherField.
	Unselectable string
	// Unselectable36 are labels that can't be selected by before 1.37.
	Unselectable36 []string
	// Declared are errors that upstream's declared rules find since 1.37, after all that is written by hand: a type and a path, where * is
	// any element, as in "Required subjects[*].name". They come in this order.
	Declared []string
	// Blank is JSON: the fields that even an empty object has, as a bookmark shows it.
	Blank string

	// Resets are the fields that a write of the object itself can't own, beside the status where that is a subresource. Paths
	// are joined by dots; * is any element.
	Resets []string
	// StatusResets are those that a write of the status neither changes nor owns: beside spec, metadata or parts of it.
	StatusResets []string
}

// OtherField refuses a field label of a kind that has some of its own, or of a custom one.
const OtherField = "field label not supported: %[1]s"

// restoreMetadata gives obj the parts of old's metadata that the paths name.
func restoreMetadata(paths []string, obj, old metav1.Object) {
	for _, p := range paths {
		switch p {
		case "metadata":
			metav1.ResetObjectMetaForStatus(obj, old)
		case "metadata.labels":
			obj.SetLabels(old.GetLabels())
		case "metadata.annotations":
			obj.SetAnnotations(old.GetAnnotations())
		case "metadata.finalizers":
			obj.SetFinalizers(old.GetFinalizers())
		case "metadata.ownerReferences":
			obj.SetOwnerReferences(old.GetOwnerReferences())
		}
	}
}

// declaredLast moves what declared rules find behind everything else.
func declaredLast(errs field.ErrorList, declared []string) field.ErrorList {
	if len(declared) == 0 || len(errs) < 2 {
		return errs
	}
	var sorted field.ErrorList
	for rank := -1; rank < len(declared); rank++ {
		for _, e := range errs {
			if slices.Index(declared, strings.TrimPrefix(string(e.Type), "FieldValue")+" "+anyElement(e.Field)) == rank {
				sorted = append(sorted, e)
			}
		}
	}
	return sorted
}

// anyElement returns a path with * in the place of each index and key.
func anyElement(path string) string {
	before, rest, indexed := strings.Cut(path, "[")
	_, after, closed := strings.Cut(rest, "]")
	if !indexed || !closed {
		return path
	}
	return before + "[*]" + anyElement(after)
}
