package httpapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// readBody reads the whole body, up to the limit. One that is not there when the request's time is up is a 504.
func (s *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	rc := http.NewResponseController(w)
	until := time.Now().Add(s.cfg.Timeout)
	if at, ok := r.Context().Deadline(); ok && at.Before(until) {
		until = at
	}
	_ = rc.SetReadDeadline(until) // a body must not trickle in for ever
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	limit := s.cfg.MaxBody
	tooLarge := func() error { return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit)) }
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	var b bytes.Buffer
	if r.ContentLength > 0 {
		b.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), err != nil && r.Context().Err() != nil:
		return nil, context.DeadlineExceeded
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read the request body: %v", err))
	}
	if int64(b.Len()) > limit {
		return nil, tooLarge()
	}
	return b.Bytes(), nil
}

// decode turns a body into obj, which comes with the expected apiVersion and kind. What is unknown or
// duplicate in it is treated as the validation says; a field of a later version is unknown.
func (c *request) decode(f reply.Format, data []byte, obj resource.Object, v server.FieldValidation) error {
	x := expects(c, obj.GetObjectKind().GroupVersionKind())
	if f == reply.Proto {
		if err := x.decodeProto(data, obj); err != nil {
			return err
		}
		openapi.Trim(c.features, obj) // unknown fields are passed over there
		return nil
	}
	doc, strict, err := data, []error(nil), error(nil)
	if f == reply.YAML {
		if doc, strict, err = codec.FromYAML(data); err != nil {
			return unrecognized(x.want, bare(err), data)
		}
	}
	if err := codec.CheckElements(doc, obj); err != nil {
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	more, err := codec.UnmarshalJSON(doc, obj)
	if err != nil {
		return x.undecodable(data, doc, err)
	}
	if got := obj.GetObjectKind().GroupVersionKind(); got != x.want {
		if x.custom {
			return x.customKind(doc, got, nameOf(obj))
		}
		if _, err := saysKind(doc); err != nil {
			return unrecognized(x.want, err, data)
		}
		if err := x.settleKind(obj, got); err != nil {
			return err
		}
	}
	if err := checkHidden(c.facts.Hides, obj); err != nil {
		return handledAs(x.want, x.want, err)
	}
	for _, path := range openapi.Trim(c.features, obj) {
		more = append(more, fmt.Errorf("unknown field %q", path))
	}
	return x.judge(append(strict, more...), v, c.warn.add)
}

// checkHidden wants a number of an annotation that stands for a field that the version has no longer.
func checkHidden(name string, obj resource.Object) error {
	v := obj.GetAnnotations()[name]
	if v == "" || name == "" {
		return nil
	}
	_, err := strconv.ParseInt(v, 10, 64)
	return err
}

// judge refuses, reports or ignores strict decoding errors.
func (x expected) judge(strict []error, v server.FieldValidation, warn func(string)) error {
	if len(strict) == 0 {
		return nil
	}
	switch v {
	case server.FieldsIgnore:
	case server.FieldsStrict:
		return handledAs(x.want, x.want, runtime.NewStrictDecodingError(strict))
	default:
		for _, text := range codec.Warnings(strict) {
			warn(text)
		}
	}
	return nil
}

// settleKind accepts an empty apiVersion or kind and refuses a wrong one.
func (x expected) settleKind(obj resource.Object, got schema.GroupVersionKind) error {
	if got.Kind == "" {
		got.Kind = x.want.Kind
	}
	if got.GroupVersion().Empty() {
		got.Group, got.Version = x.want.Group, x.want.Version
	}
	if got != x.want && (got != betaEviction || x.want != eviction) {
		return x.wrongKind(got)
	}
	obj.GetObjectKind().SetGroupVersionKind(x.want)
	return nil
}

func (x expected) decodeProto(data []byte, obj resource.Object) error {
	gvk, raw, err := codec.OpenEnvelope(data)
	if err != nil {
		return unrecognized(x.want, unopened(data, err), data)
	}
	if gvk != x.want && !gvk.Empty() {
		if err := x.settleKind(obj, gvk); err != nil {
			return err
		}
	}
	err = codec.CheckMessage(raw, obj)
	if errors.Is(err, codec.ErrElements) {
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	if err == nil {
		err = codec.UnmarshalProto(data, obj)
	}
	if err != nil {
		return handledAs(x.want, x.want, bare(err))
	}
	obj.GetObjectKind().SetGroupVersionKind(x.want)
	return nil
}

// customKind says what is wrong with the type that a custom resource claims to be of. Other than with built-in
// kinds it must be told, and a wrong kind is a matter of validation.
func (x expected) customKind(doc []byte, got schema.GroupVersionKind, name string) error {
	if got.Kind == "" { // which it is, too, with a version that is none
		claimed, err := saysKind(doc)
		if err == nil || claimed.Kind == "" {
			err = runtime.NewMissingKindErr(string(doc))
		}
		return unrecognized(x.want, err, doc)
	}
	switch {
	case got.GroupVersion() != x.want.GroupVersion():
		return x.wrongKind(got)
	}
	return apierrors.NewInvalid(got.GroupKind(), name,
		field.ErrorList{field.Invalid(field.NewPath("kind"), got.Kind, "must be "+x.want.Kind)})
}

// nameOf is the name of an object, made up if the object asks for that.
func nameOf(obj resource.Object) string {
	if base := obj.GetGenerateName(); obj.GetName() == "" && base != "" {
		return base + rand.String(5)
	}
	return obj.GetName()
}

// saysKind reads what a JSON document claims to be.
func saysKind(doc []byte) (schema.GroupVersionKind, error) {
	var t struct { // without a name, which the messages would tell
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(doc, &t); err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	return gv.WithKind(t.Kind), err
}

// bare is a library's message without this program's own context.
func bare(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// unopened says why a body is no message in protobuf.
func unopened(data []byte, err error) error {
	const magic = "k8s\x00"
	switch {
	case len(data) == 0:
		return errors.New("empty data")
	case !bytes.HasPrefix(data, []byte(magic)):
		return fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", []byte(magic))
	case len(data) == len(magic):
		return errors.New("empty body")
	}
	return bare(err)
}

// undecodable explains JSON that does not fit, by the type that it claims to be. doc is data, unless that is YAML.
func (x expected) undecodable(data, doc []byte, err error) error {
	got, bad := saysKind(doc)
	switch {
	case bad != nil:
		return unrecognized(x.want, bad, data)
	case got.Kind == "" && x.custom:
		return unrecognized(x.want, runtime.NewMissingKindErr(string(doc)), data)
	case got.Kind == "":
		got.Kind = x.want.Kind
	case x.custom:
		return handledAs(got, x.want, err)
	}
	if got != x.want && !got.GroupVersion().Empty() {
		return x.wrongKind(got)
	}
	return handledAs(got, x.want, err)
}

func handledAs(got, want schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, want.Version, want.Kind, err))
}

func unrecognized(want schema.GroupVersionKind, err error, data []byte) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)",
		want.Kind, err, summary(data)))
}

// summary shows the beginning of a body, in hexadecimal if it looks like no JSON object.
func summary(data []byte) string {
	const shown = 30
	if len(data) == 0 {
		return "<empty>"
	}
	more := ""
	if len(data) > shown {
		data, more = data[:shown], " ..."
	}
	if data[0] == '{' {
		return string(data) + more
	}
	return hex.EncodeToString(data) + more
}

// sameName holds a body to the name and namespace of the URL.
func sameName(obj resource.Object, ns, name string) error {
	switch {
	case obj.GetName() == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: %v",
			name, errors.New("name must be provided")))
	case ns != "" && obj.GetNamespace() != "" && obj.GetNamespace() != ns:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case obj.GetName() != name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), name))
	}
	return nil
}
