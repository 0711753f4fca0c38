package server

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

const (
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789" // no vowels: no words
	suffixLength  = 5
	maxBase       = 63 - suffixLength
)

// random holds random bytes read ahead: one system call serves many uids.
var random = sync.Pool{New: func() any { return new(randomBlock) }}

type randomBlock struct {
	bytes [1024]byte
	left  int
}

func randomBytes(dst []byte) {
	b := random.Get().(*randomBlock)
	if b.left < len(dst) {
		_, _ = rand.Read(b.bytes[:]) // crypto/rand never fails: it crashes the program instead
		b.left = len(b.bytes)
	}
	b.left -= len(dst)
	copy(dst, b.bytes[b.left:])
	random.Put(b)
}

// random fills p with chance, or with what a simulation takes for it.
func (s *Server) random(p []byte) {
	if s.Random != nil {
		s.Random(p)
		return
	}
	randomBytes(p)
}

// pick returns a number below n by chance.
func (s *Server) pick(n int) int {
	var b [8]byte
	s.random(b[:])
	return int(binary.LittleEndian.Uint64(b[:]) % uint64(n))
}

// newUID returns a random UUID of version 4.
func (s *Server) newUID() types.UID {
	var u [16]byte
	s.random(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	var t [36]byte
	hex.Encode(t[0:8], u[0:4])
	hex.Encode(t[9:13], u[4:6])
	hex.Encode(t[14:18], u[6:8])
	hex.Encode(t[19:23], u[8:10])
	hex.Encode(t[24:36], u[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return types.UID(t[:])
}

// verbatim are the kinds whose generateName is the name: there is no other name for an address.
var verbatim = map[schema.GroupResource]bool{{Group: "networking.k8s.io", Resource: "ipaddresses"}: true}

// generateName makes a name from a base: cut to leave room, plus five letters.
func (s *Server) generateName(base string) string {
	if len(base) > maxBase {
		base = base[:maxBase]
	}
	var suffix [suffixLength]byte
	for i := 0; i < len(suffix); {
		var b [1]byte
		s.random(b[:])
		if int(b[0]) < 256/len(suffixLetters)*len(suffixLetters) { // no letter is likelier than another
			suffix[i] = suffixLetters[int(b[0])%len(suffixLetters)]
			i++
		}
	}
	return base + string(suffix[:])
}

// placed checks that the object agrees with the namespace of the request, or fills it in.
func placed(r *Request, obj resource.Object) error {
	want := r.Namespace
	if !r.Kind.Info().Namespaced {
		want = ""
	}
	switch ns := obj.GetNamespace(); {
	case ns == want:
	case ns == "" || want == "":
		obj.SetNamespace(want)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// named checks that the object agrees with the name of the request.
func named(r *Request, obj resource.Object) error {
	if name := obj.GetName(); name != "" && name != r.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, r.Name))
	}
	return nil
}

// wipe removes what only the server sets.
func wipe(obj metav1.Object) {
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetUID("")
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
}

// keep restores of an object's metadata what an update can't change.
func keep(obj, old metav1.Object) {
	obj.SetGeneration(old.GetGeneration())
	obj.SetSelfLink("")
	obj.SetResourceVersion(old.GetResourceVersion())
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	if t := old.GetCreationTimestamp(); !t.IsZero() {
		obj.SetCreationTimestamp(t)
	}
	if t := old.GetDeletionTimestamp(); !t.IsZero() {
		obj.SetDeletionTimestamp(t)
	}
	if g := old.GetDeletionGracePeriodSeconds(); g != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(g)
	}
}

var metadataPath = field.NewPath("metadata")

// checkMeta validates metadata; old is nil for a new object.
func checkMeta(r *Request, obj, old resource.Object) field.ErrorList {
	errs := asTold(r, validation.ValidateObjectMetaAccessor(light(obj), r.Kind.Info().Namespaced, r.checkName, metadataPath))
	if old != nil {
		fixed := asTold(r, validation.ValidateObjectMetaAccessorUpdate(obj, old, metadataPath))
		if errs = append(errs, fixed...); !checksMetaOnce[r.Kind.Info().GR()] && !r.oldEvents() {
			errs = append(errs, fixed...)
		}
	}
	return append(errs, checkFinalizers(r, obj, old)...)
}

// nameOnly are the kinds that tell of a bad generateName by the name that was made of it.
var nameOnly = map[schema.GroupResource]bool{
	{Resource: "replicationcontrollers"}:                  true,
	{Group: "resource.k8s.io", Resource: "deviceclasses"}: true,
}

const generateNamePath, ownersPath = "metadata.generateName", "metadata.ownerReferences"

// asTold turns the library's findings about metadata into those that clients are told.
//
// Unlike Kubernetes, a bad owner reference is told of as up to 1.36: without its place in the list, and what it lacks as
// invalid. Clients know that form.
func asTold(r *Request, errs field.ErrorList) field.ErrorList {
	told := errs[:0]
	for _, e := range errs {
		if e.Field == generateNamePath && nameOnly[r.Kind.Info().GR()] {
			continue
		}
		if rest, owner := strings.CutPrefix(e.Field, ownersPath+"["); owner {
			_, rest, _ = strings.Cut(rest, "]")
			e.Field = ownersPath + rest
			if e.Type == field.ErrorTypeRequired {
				e.Type, e.BadValue = field.ErrorTypeInvalid, ""
			}
		}
		told = append(told, e)
	}
	return told
}

// light is an object whose managedFields come without the fields, which no rule looks at and which trees make anew
// whenever they are asked.
func light(obj resource.Object) metav1.Object {
	tree, ok := content(obj)
	if !ok {
		return obj
	}
	meta, _ := tree["metadata"].(map[string]any)
	list, ok := meta["managedFields"].([]any)
	if !ok {
		return obj
	}
	return fieldless{obj, list}
}

type fieldless struct {
	metav1.Object
	entries []any
}

// GetManagedFields implements metav1.Object.
func (f fieldless) GetManagedFields() []metav1.ManagedFieldsEntry {
	out := make([]metav1.ManagedFieldsEntry, len(f.entries))
	for i, e := range f.entries {
		m, _ := e.(map[string]any)
		text := func(name string) string { s, _ := m[name].(string); return s }
		out[i] = metav1.ManagedFieldsEntry{Manager: text("manager"), Operation: metav1.ManagedFieldsOperationType(text("operation")),
			APIVersion: text("apiVersion"), FieldsType: text("fieldsType"), Subresource: text("subresource")}
	}
	return out
}

// checksMetaOnce are the kinds that do not tell of a changed uid or the like twice, as upstream's other kinds do:
// there both the generic rules and the kind's own look.
var checksMetaOnce = map[schema.GroupResource]bool{
	{Resource: "persistentvolumes"}: true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   true,
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: true,
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                              true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                     true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}:     true,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                                      true,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:                             true,
}

// checkFinalizers demands that the finalizers of built-in kinds name a domain.
func checkFinalizers(r *Request, obj, old resource.Object) (errs field.ErrorList) {
	switch i := r.Kind.Info(); {
	case len(obj.GetFinalizers()) == 0, i.Custom, r.oldEvents(), i.GVK.Group == "apiregistration.k8s.io",
		i.GVK.Group == "apiextensions.k8s.io", i.GVK.Group == "admissionregistration.k8s.io":
		return nil
	}
	for i, f := range obj.GetFinalizers() {
		switch {
		case strings.Contains(f, "/"), f == metav1.FinalizerOrphanDependents, f == metav1.FinalizerDeleteDependents, f == "kubernetes":
		case old != nil && slices.Contains(old.GetFinalizers(), f):
		default:
			errs = append(errs, field.Invalid(metadataPath.Child("finalizers").Index(i), f,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// singleOwners drops repeated owner references, with a warning.
func singleOwners(r *Request, obj metav1.Object) {
	refs := obj.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	var twice []string
	kept := refs[:0:0]
	for _, ref := range refs {
		if slices.ContainsFunc(kept, func(k metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(k, ref) }) {
			twice = append(twice, string(ref.UID))
			continue
		}
		kept = append(kept, ref)
	}
	if twice == nil {
		return
	}
	obj.SetOwnerReferences(kept)
	r.warn(".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject " +
		"such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: " + strings.Join(twice, ", "))
}

// prefixFromUserAgent is the product name that a user agent starts with, printable and of bounded length.
func prefixFromUserAgent(agent string) string {
	product, _, _ := strings.Cut(agent, "/")
	product = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, product)
	const longest = 128
	for i := range product {
		if i > longest {
			return product[:i]
		}
	}
	return product
}
