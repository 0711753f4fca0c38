package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
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
			o, err := f.believe(list[i], raw.Raw, to)
			if err != nil {
				return nil, fmt.Errorf("conversion webhook for %v returned invalid object at index %d: %w", from, i, err)
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
// metadata, nothing but labels and annotations.
func (f *family) believe(from *Object, doc []byte, to *version) (*Object, error) {
	content := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &content); err != nil {
		return nil, err
	}
	out := &Object{}
	out.Object = content
	switch is := out.GroupVersionKind(); {
	case is.GroupVersion() != to.gvk.GroupVersion():
		return nil, fmt.Errorf("invalid groupVersion (expected %v, received %v)", to.gvk.GroupVersion(), is.GroupVersion())
	case is.Kind != to.gvk.Kind:
		return nil, fmt.Errorf("invalid kind (expected %v, received %v)", to.gvk.Kind, is.Kind)
	}
	if err := sameObject(from, out); err != nil {
		return nil, err
	}
	if err := restoreMeta(from.Object, content); err != nil {
		return nil, fmt.Errorf("invalid metadata: %w", err)
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

// restoreMeta gives an object the metadata of the one that it was made of, with labels and annotations of its own.
func restoreMeta(from, to map[string]any) error {
	got, ok := to["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("metadata of type %T in converted object", to["metadata"])
	}
	was, _ := from["metadata"].(map[string]any)
	next := runtime.DeepCopyJSON(maps.Clone(was))
	for _, name := range []string{"labels", "annotations"} {
		delete(next, name)
		m, ok := got[name].(map[string]any)
		switch {
		case got[name] == nil:
			continue
		case !ok:
			return fmt.Errorf("metadata.%s of type %T in converted object", name, got[name])
		}
		for key, value := range m {
			if _, ok := value.(string); !ok {
				return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, value)
			}
		}
		next[name] = m
	}
	to["metadata"] = next
	return nil
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
