package server

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
func (s *Core) random(p []byte) {
	if s.Random != nil {
		s.Random(p)
		return
	}
	randomBytes(p)
}

// Pick returns a number below n by chance.
func (s *Core) Pick(n int) int {
	var b [8]byte
	s.random(b[:])
	return int(binary.LittleEndian.Uint64(b[:]) % uint64(n))
}

// NewUID returns a random UUID of version 4.
func (s *Core) NewUID() types.UID {
	var u [16]byte
	s.random(u[:])
	return types.UID(uuid(u))
}

// RandomUUID returns one for what is no object.
func RandomUUID() string {
	var u [16]byte
	randomBytes(u[:])
	return uuid(u)
}

// uuid makes a UUID of version 4 of random bytes.
func uuid(u [16]byte) string {
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	var t [36]byte
	hex.Encode(t[0:8], u[0:4])
	hex.Encode(t[9:13], u[4:6])
	hex.Encode(t[14:18], u[6:8])
	hex.Encode(t[19:23], u[8:10])
	hex.Encode(t[24:36], u[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return string(t[:])
}

// generateName makes a name from a base: cut to leave room, plus five letters.
func (s *Core) generateName(base string) string {
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

// checkNamespace checks that the object agrees with the namespace of the request, or fills it in.
func checkNamespace(r *Request, obj resource.Object) error {
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

// afterAdmission are the words of a warning about what did not stand in an object that was sent: it came of a patch, or of admission.
const afterAdmission = " after mutating admission happens"

// singleOwners drops repeated owner references, with a warning that says when they were found.
func singleOwners(r *Request, obj metav1.Object, found string) {
	refs := obj.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	var twice []string
	kept := refs[:0:0]
	seen := make(map[ownerKey]bool, len(refs)) // there may be tens of thousands
	for _, ref := range refs {
		key := ownerKeyOf(ref)
		if seen[key] {
			twice = append(twice, string(ref.UID))
			continue
		}
		seen[key] = true
		kept = append(kept, ref)
	}
	if twice == nil {
		return
	}
	obj.SetOwnerReferences(kept)
	r.warn(".metadata.ownerReferences contains duplicate entries" + found + "; API server dedups owner references in 1.20+, and may " +
		"reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: " + strings.Join(twice, ", "))
}

// An ownerKey is all that an owner reference says, to be compared.
type ownerKey struct {
	ref               metav1.OwnerReference // without pointers
	controller, block int                   // 0: it does not say
}

func ownerKeyOf(ref metav1.OwnerReference) ownerKey {
	says := func(b *bool) int {
		switch {
		case b == nil:
			return 0
		case *b:
			return 1
		}
		return 2
	}
	k := ownerKey{controller: says(ref.Controller), block: says(ref.BlockOwnerDeletion)}
	ref.Controller, ref.BlockOwnerDeletion = nil, nil
	k.ref = ref
	return k
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
