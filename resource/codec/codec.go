// Package codec turns objects into bytes and back: the wire's JSON, YAML and protobuf, and the store's
// encoding, which is upstream's (k8s\x00 + runtime.Unknown for built-in kinds, JSON for custom resources).
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource"
)

// The media types of the wire.
const (
	JSON     = "application/json"
	YAML     = "application/yaml"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// ErrNoProtobuf is returned for objects that have no protobuf form (custom resources).
var ErrNoProtobuf = errors.New("object has no protobuf encoding")

// Proto is implemented by generated types.
type Proto interface {
	Size() int
	MarshalTo([]byte) (int, error)
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// Encoded is implemented by objects that are JSON already.
type Encoded interface {
	// EncodedJSON returns what MarshalJSON of this package would. The bytes are shared and must not be changed. Where
	// they have to be made, that is done in room, which grows; without room they are the caller's to keep.
	EncodedJSON(room *[]byte) []byte
}

// Maker is implemented by objects that can be encoded quicker than what they stand for.
type Maker interface {
	// MakeJSON returns what MarshalJSON of this package would of the open object.
	MakeJSON() ([]byte, error)
	StoredMaker
}

// StoredMaker is implemented by objects that know what is stored of them.
type StoredMaker interface {
	// MakeStored returns what Stored of this package would of the open object. It is shared.
	MakeStored() []byte
}

// MarshalJSON encodes an object as JSON without a trailing newline. apiVersion and kind come first when the
// object carries them. The bytes must not be changed: others may have them too.
func MarshalJSON(obj any) ([]byte, error) {
	if e, ok := obj.(Encoded); ok {
		return e.EncodedJSON(nil), nil
	}
	if u, ok := obj.(runtime.Unstructured); ok && !u.IsList() {
		doc, err := AppendTree(make([]byte, 0, 2048), u.UnstructuredContent()) // its own encoding is the same, and slow
		if err != nil {
			return nil, fmt.Errorf("encode %T as JSON: %w", obj, err)
		}
		return doc, nil
	}
	doc, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T as JSON: %w", obj, err)
	}
	if cut, empty := bytes.CutSuffix(doc, []byte(`,"status":{}}`)); empty && isCSINode(obj) {
		doc = append(cut, '}')
	}
	return doc, nil
}

// isCSINode is true of a type whose empty status is taken off: unlike Kubernetes, a CSINode shows none while the feature that fills it is
// off, as up to 1.36. It is known by its name: who imports the package of a group links all types of the group.
func isCSINode(obj any) bool {
	t := reflect.TypeOf(obj)
	return t.Kind() == reflect.Pointer && t.Elem().Name() == "CSINode" && t.Elem().PkgPath() == "k8s.io/api/storage/v1"
}

// MarshalProto encodes an object as an enveloped protobuf message, with its own apiVersion and kind.
func MarshalProto(obj runtime.Object) ([]byte, error) {
	return appendEnvelope(nil, obj.GetObjectKind().GroupVersionKind(), obj)
}

// RawProto encodes an object as the bare message, without envelope.
func RawProto(obj any) ([]byte, error) {
	p, ok := obj.(Proto)
	if !ok {
		return nil, fmt.Errorf("encode %T: %w", obj, ErrNoProtobuf)
	}
	return p.Marshal()
}

// UnmarshalProto decodes an enveloped message into obj and sets the type that the envelope names.
func UnmarshalProto(data []byte, obj runtime.Object) error {
	gvk, raw, err := OpenEnvelope(data)
	if err != nil {
		return err
	}
	p, ok := obj.(Proto)
	if !ok {
		return fmt.Errorf("decode %T: %w", obj, ErrNoProtobuf)
	}
	if err := fromProto(raw, p); err != nil {
		return fmt.Errorf("decode %T from protobuf: %w", obj, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return nil
}

// fromProto decodes a bare message.
func fromProto(raw []byte, p Proto) error {
	if err := resource.CheckQuantities(raw, p); err != nil {
		return err
	}
	return p.Unmarshal(raw)
}

// FromTree decodes a tree of maps and lists into obj, which is a pointer to a struct.
func FromTree(tree map[string]any, obj any) error {
	if spoiled := resource.SpoilTree(tree); spoiled != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spoiled, another(obj)); err != nil {
			return err
		}
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(tree, obj)
}

// another is an empty object of the type of obj, to try what would be dear to decode.
func another(obj any) any { return reflect.New(reflect.TypeOf(obj).Elem()).Interface() }

// Strict is implemented by objects that know themselves which fields they have.
type Strict interface {
	// UnmarshalStrict is UnmarshalJSON of this package.
	UnmarshalStrict(data []byte) (strict []error, err error)
}

// A Decoder is a kind that reads its stored objects itself.
type Decoder interface {
	// Decode is FromStored of this package.
	Decode(data []byte) (resource.Object, error)
}

// UnmarshalJSON decodes JSON into obj, case-sensitively and keeping integers. The strict errors name unknown
// and duplicate fields; the object is decoded all the same.
func UnmarshalJSON(data []byte, obj any) (strict []error, err error) {
	if err := CheckDepth(data); err != nil {
		return nil, err
	}
	if s, ok := obj.(Strict); ok {
		return s.UnmarshalStrict(data)
	}
	if resource.HoldsQuantity(obj) {
		if spoiled := resource.SpoilQuantities(data); spoiled != nil {
			if _, err := kjson.UnmarshalStrict(spoiled, another(obj)); err != nil {
				return nil, err
			}
		}
	}
	return kjson.UnmarshalStrict(data, obj)
}

// FromYAML turns YAML into JSON. The strict errors name duplicate keys, which JSON could not show.
func FromYAML(data []byte) (doc []byte, strict []error, err error) {
	if err := CheckAliases(data); err != nil {
		return nil, nil, fmt.Errorf("decode YAML: %w", err)
	}
	if doc, err = yaml.YAMLToJSONStrict(data); err == nil {
		return doc, nil, nil
	}
	loose, lerr := yaml.YAMLToJSON(data)
	if lerr != nil {
		return nil, nil, fmt.Errorf("decode YAML: %w", lerr)
	}
	return loose, []error{err}, nil
}

// Warnings returns what to warn of when strict errors are not to be fatal: a line for each, without what the reader of YAML
// says around them.
func Warnings(strict []error) (list []string) {
	for _, err := range strict {
		text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
		lines, ok := strings.CutPrefix(text, "yaml: unmarshal errors:\n")
		if !ok {
			list = append(list, err.Error())
			continue
		}
		for line := range strings.SplitSeq(lines, "\n") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// Stored encodes an object of the kind's hub version for the store. resourceVersion is left out, as it is
// the revision of the write itself; obj is not changed.
func Stored(k resource.Kind, obj resource.Object) ([]byte, error) { return AppendStored(nil, k, obj) }

// AppendStored appends what Stored returns. For who encodes one object after another.
func AppendStored(b []byte, k resource.Kind, obj resource.Object) ([]byte, error) {
	if quick, ok := obj.(StoredMaker); ok {
		return append(b, quick.MakeStored()...), nil
	}
	if obj.GetResourceVersion() != "" {
		obj = resource.Clone(obj)
		obj.SetResourceVersion("")
	}
	if !k.Info().Custom {
		return appendEnvelope(b, k.Info().GVK, obj)
	}
	doc, err := MarshalJSON(obj)
	if b == nil || err != nil {
		return doc, err
	}
	return append(b, doc...), nil
}

// FromStored decodes what Stored made, in whatever served version it was written, into the hub version.
// resourceVersion stays empty: the caller knows the revision.
func FromStored(k resource.Kind, data []byte) (resource.Object, error) {
	if !bytes.HasPrefix(data, magic) {
		if d, ok := k.(Decoder); ok {
			return d.Decode(data)
		}
		return fromStoredJSON(k, data)
	}
	gvk, raw, err := OpenEnvelope(data)
	if err != nil {
		return nil, err
	}
	obj, err := newStored(k, gvk)
	if err != nil {
		return nil, err
	}
	p, ok := obj.(Proto)
	if !ok {
		return nil, fmt.Errorf("decode stored %s: %w", gvk, ErrNoProtobuf)
	}
	if err := fromProto(raw, p); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", gvk, err)
	}
	return toHub(k, obj)
}

func fromStoredJSON(k resource.Kind, data []byte) (resource.Object, error) {
	var t struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", k.Info().GR(), err)
	}
	obj, err := newStored(k, schema.FromAPIVersionAndKind(t.APIVersion, t.Kind))
	if err != nil {
		return nil, err
	}
	if _, err := UnmarshalJSON(data, obj); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", k.Info().GR(), err)
	}
	return toHub(k, obj)
}

func newStored(k resource.Kind, gvk schema.GroupVersionKind) (resource.Object, error) {
	i := k.Info()
	if gvk == i.GVK {
		return k.New(gvk), nil
	}
	for _, also := range i.Also {
		if also == gvk {
			return k.New(gvk), nil
		}
	}
	if i.Custom { // a version that is no longer served still decodes
		obj := k.New(i.GVK)
		return obj, nil
	}
	return nil, fmt.Errorf("stored object of %s has type %s, which is not served", i.GR(), gvk)
}
