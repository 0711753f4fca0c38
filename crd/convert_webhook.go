package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/webhook"
)

// The bounds of one call of a conversion webhook.
const (
	convertTime  = 30 * time.Second // as upstream's
	convertBatch = 500              // objects
	convertBytes = 8 << 20          // about what one call sends at most
	answerBytes  = 64 << 20
)

// hooked says that a webhook converts the objects of the definition.
func (f *family) hooked() bool {
	c := f.def.Spec.Conversion
	return c != nil && c.Strategy == apiextensionsv1.WebhookConverter
}

// translate returns objects of one version in another one, by the definition's webhook. The objects have the defaults of
// their version, and get those of the other. The arguments stay as they are.
func (f *family) translate(ctx context.Context, list []*Object, to *version) ([]*Object, error) {
	out := make([]*Object, 0, len(list))
	for len(list) > 0 {
		docs, n, err := batch(list)
		if err != nil {
			return nil, err
		}
		from := list[0].GroupVersionKind()
		converted, err := f.convert(ctx, docs, to.gvk)
		if err != nil {
			return nil, fmt.Errorf("conversion webhook for %v failed: %w", from, err)
		}
		if len(converted) != n {
			return nil, fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", from, len(converted), n)
		}
		for i, raw := range converted {
			o, err := f.believe(list[i], i, raw.Raw, to)
			if err != nil {
				return nil, fmt.Errorf("conversion webhook for %v returned invalid %w", from, err)
			}
			out = append(out, o)
		}
		list = list[n:]
	}
	return out, nil
}

// batch encodes as many objects as one call takes.
func batch(list []*Object) (docs []runtime.RawExtension, n int, err error) {
	size := 0
	for _, o := range list {
		doc, err := codec.MarshalJSON(o)
		if err != nil {
			return nil, 0, err
		}
		if size += len(doc); n > 0 && (size > convertBytes || n == convertBatch) {
			break
		}
		docs, n = append(docs, runtime.RawExtension{Raw: doc}), n+1
	}
	return docs, n, nil
}

// convert makes one call.
func (f *family) convert(ctx context.Context, docs []runtime.RawExtension, to schema.GroupVersionKind) ([]runtime.RawExtension, error) {
	hook := f.def.Spec.Conversion.Webhook
	if f.caller == nil || hook == nil || hook.ClientConfig == nil {
		return nil, errors.New("this server calls no webhooks")
	}
	version, err := reviewVersion(hook.ConversionReviewVersions)
	if err != nil {
		return nil, err
	}
	client, err := f.caller.Client(target(hook.ClientConfig))
	if err != nil {
		return nil, err
	}
	asked := apiextensionsv1.ConversionReview{TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.GroupName + "/" + version,
		Kind: "ConversionReview"},
		Request: &apiextensionsv1.ConversionRequest{UID: uuid.NewUUID(), DesiredAPIVersion: to.GroupVersion().String(), Objects: docs}}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, convertTime)
	defer cancel()
	data, err := client.Post(ctx, body, answerBytes)
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown || apierrors.IsUnexpectedServerError(err) {
		return nil, errors.New(err.Error()) // what the webhook's server answered is not the answer to the client
	}
	if err != nil {
		return nil, err
	}
	return answered(data, &asked)
}

// reviewVersion chooses the first version of the review that both sides know.
func reviewVersion(list []string) (string, error) {
	for _, v := range list {
		if v == "v1" || v == "v1beta1" {
			return v, nil
		}
	}
	return "", errors.New("no supported conversion review versions")
}

func target(c *apiextensionsv1.WebhookClientConfig) webhook.Target {
	t := webhook.Target{CABundle: c.CABundle}
	if c.URL != nil {
		t.URL = *c.URL
	}
	if s := c.Service; s != nil {
		t.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Port != nil {
			t.Service.Port = *s.Port
		}
		if s.Path != nil {
			t.Service.Path = *s.Path
		}
	}
	return t
}

// answered reads what the webhook said. The old version of the review was checked less.
func answered(data []byte, asked *apiextensionsv1.ConversionReview) ([]runtime.RawExtension, error) {
	var review apiextensionsv1.ConversionReview
	if _, err := codec.UnmarshalJSON(data, &review); err != nil {
		return nil, err
	}
	if asked.APIVersion == apiextensionsv1.SchemeGroupVersion.String() && review.GroupVersionKind() != asked.GroupVersionKind() {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", asked.GroupVersionKind().String(), review.GroupVersionKind().String())
	}
	r := review.Response
	switch {
	case r == nil:
		return nil, errors.New("no response provided")
	case asked.APIVersion == apiextensionsv1.SchemeGroupVersion.String() && r.UID != asked.Request.UID:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", asked.Request.UID, r.UID)
	case r.Result.Status == metav1.StatusSuccess:
		return r.ConvertedObjects, nil
	case r.Result.Message != "":
		return nil, errors.New(r.Result.Message)
	}
	return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", r.Result.Status)
}

// believe takes over an object from the webhook, which may change everything but what the object is and, of the
// metadata, nothing but labels and annotations. The error says what is invalid of the object that stands at an index of the answer.
func (f *family) believe(from *Object, at int, doc []byte, to *version) (*Object, error) {
	content := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &content); err != nil {
		return nil, fmt.Errorf("object at index %d: %w", at, err)
	}
	out := &Object{}
	out.Object = content
	switch is := out.GroupVersionKind(); {
	case is.GroupVersion() != to.gvk.GroupVersion():
		return nil, fmt.Errorf("object at index %d: invalid groupVersion (expected %v, received %v)", at, to.gvk.GroupVersion(),
			is.GroupVersion())
	case is.Kind != to.gvk.Kind:
		return nil, fmt.Errorf("object at index %d: invalid kind (expected %v, received %v)", at, to.gvk.Kind, is.Kind)
	}
	if err := sameObject(from, out); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	if err := restoreMeta(from.Object, content); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	out.read = to
	if _, err := to.coerce(content, false, false); err != nil {
		return nil, err
	}
	to.fill(content)
	return out, nil
}

func sameObject(a, b *Object) error {
	for _, c := range []struct{ what, is, got string }{
		{"name", a.GetName(), b.GetName()}, {"namespace", a.GetNamespace(), b.GetNamespace()},
		{"UID", string(a.GetUID()), string(b.GetUID())},
	} {
		if c.is != c.got {
			return fmt.Errorf("must have the same %s: %v != %v", c.what, c.is, c.got)
		}
	}
	return nil
}

// restoreMeta gives an object the metadata of the one that it was made of, with labels and annotations of its own. What is applied, and
// what a manager of fields owns, may have no metadata.
func restoreMeta(from, to map[string]any) error {
	said, found := to["metadata"]
	got, ok := said.(map[string]any)
	switch {
	case !found:
		return errors.New("missing metadata in converted object")
	case !ok:
		return fmt.Errorf("invalid metadata of type %T in converted object", said)
	}
	next := map[string]any{}
	if was, ok := from["metadata"].(map[string]any); ok {
		next = runtime.DeepCopyJSON(was)
	}
	for _, name := range []string{"labels", "annotations"} {
		before, _ := next[name].(map[string]any)
		delete(next, name)
		if got[name] == nil {
			continue
		}
		m, ok := got[name].(map[string]any)
		if !ok {
			return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, got[name])
		}
		if err := checkStrings(name, before, m); err != nil {
			return err
		}
		next[name] = m
	}
	to["metadata"] = next
	return nil
}

// checkStrings checks labels or annotations that a webhook has changed.
func checkStrings(name string, before, now map[string]any) error {
	texts, same := make(map[string]string, len(now)), len(before) == len(now)
	for key, value := range now {
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, value)
		}
		texts[key], same = text, same && before[key] == value
	}
	switch {
	case same:
		return nil
	case name == "labels":
		return metavalidation.ValidateLabels(texts, field.NewPath("metadata", name)).ToAggregate()
	}
	return apivalidation.ValidateAnnotations(texts, field.NewPath("metadata", "annotation")).ToAggregate()
}

// A conversionCache remembers what stored objects look like in other versions, so that lists and selectors don't ask again.
// What is remembered is never changed.
type conversionCache struct {
	known map[conversionKey]*Object
	down  time.Time // until then the webhook is not asked by those who can do without
}

type conversionKey struct {
	uid types.UID
	rev string
	in  string
}

// maxMemo bounds the objects that one definition remembers.
const maxMemo = 512

// pause is the time for which a webhook that failed is left alone by selectors.
const pause = time.Second

func keyOf(o resource.Object, to *version) conversionKey {
	return conversionKey{o.GetUID(), o.GetResourceVersion(), to.gvk.Version}
}

func (f *family) remembered(o resource.Object, to *version) *Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.memo.known[keyOf(o, to)]
}

func (f *family) remember(o, converted *Object, to *version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.memo.known == nil {
		f.memo.known = map[conversionKey]*Object{}
	}
	for key := range f.memo.known { // any
		if len(f.memo.known) < maxMemo {
			break
		}
		delete(f.memo.known, key)
	}
	f.memo.known[keyOf(o, to)] = converted
}

func (f *family) resting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.memo.down)
}

func (f *family) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memo.down = time.Now().Add(pause)
}
