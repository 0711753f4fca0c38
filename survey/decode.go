package survey

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A how has the form in which a kind is asked for.
type how struct {
	accept, fields string
	page           int
	next           func(data []byte) (token string, err error) // where the page after goes on; "": there is none
	decode         func(k resource.Kind, data []byte) (page []resource.Object, err error)
}

// metadataOnly asks for names and labels, and nothing that is in the objects.
const metadataOnly = codec.Protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

func howOf(k resource.Kind) how {
	switch {
	case k == resource.Kind(kinds.Secrets) || k == resource.Kind(kinds.ConfigMaps):
		return how{page: pageSize, accept: metadataOnly, next: nextOfProto, decode: fromProto}
	case k == resource.Kind(kinds.Events):
		return how{page: pageSize, accept: codec.Protobuf, fields: "type=" + corev1.EventTypeWarning, next: nextOfProto, decode: fromProto}
	case k.Info().Custom:
		return how{page: pageSize / 4, accept: codec.JSON, next: nextOfJSON, decode: fromJSON}
	}
	return how{page: pageSize, accept: codec.Protobuf, next: nextOfProto, decode: fromProto}
}

var errCut = errors.New("the message is cut off")

// opened is the list in an answer. It stays where it is: package codec's copy of a page is megabytes.
func opened(data []byte) (list []byte, err error) {
	body, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return nil, errors.New("the answer is no protobuf of Kubernetes")
	}
	err = fields(body, func(field uint64, part []byte) error {
		if field == 2 {
			list = part
		}
		return nil
	})
	return list, err
}

// fields yields the parts of a message whose parts are messages or words. In all lists of Kubernetes 1 is the metadata and 2 an item, in
// an envelope 2 is the list.
func fields(raw []byte, each func(field uint64, body []byte) error) error {
	for len(raw) > 0 {
		tag, n := binary.Uvarint(raw)
		if n <= 0 || tag&7 != 2 {
			return errCut
		}
		size, m := binary.Uvarint(raw[n:])
		if m <= 0 || size > uint64(len(raw)-n-m) {
			return errCut
		}
		if err := each(tag>>3, raw[n+m:n+m+int(size)]); err != nil {
			return err
		}
		raw = raw[n+m+int(size):]
	}
	return nil
}

func nextOfProto(data []byte) (token string, err error) {
	var meta metav1.ListMeta
	list, err := opened(data)
	if err != nil {
		return "", err
	}
	err = fields(list, func(field uint64, body []byte) error {
		if field == 1 {
			return meta.Unmarshal(body)
		}
		return nil
	})
	return meta.Continue, err
}

func fromProto(k resource.Kind, data []byte) (page []resource.Object, err error) {
	list, err := opened(data)
	if err != nil {
		return nil, err
	}
	err = fields(list, func(field uint64, body []byte) error {
		if field != 2 {
			return nil
		}
		obj := k.New(k.Info().GVK)
		p, ok := obj.(codec.Proto)
		if !ok {
			return codec.ErrNoProtobuf
		}
		if err := p.Unmarshal(body); err != nil {
			return err
		}
		page = append(page, lighter(obj))
		return nil
	})
	return page, err
}

// lighter drops what no explanation is made of: of 10,000 pods it is most of the memory; of Secrets it may repeat values.
func lighter(obj resource.Object) resource.Object {
	switch o := obj.(type) {
	case *corev1.Pod, *corev1.Event, *corev1.Node:
		obj.SetManagedFields(nil)
		obj.SetAnnotations(nil)
	case *corev1.Secret, *corev1.ConfigMap:
		obj.SetManagedFields(nil)
		obj.SetAnnotations(nil)
	case *apiextensionsv1.CustomResourceDefinition:
		for i := range o.Spec.Versions {
			o.Spec.Versions[i].Schema = nil
		}
	}
	return obj
}

func nextOfJSON(data []byte) (token string, err error) {
	var list struct {
		Metadata metav1.ListMeta `json:"metadata"`
	}
	err = json.Unmarshal(data, &list)
	return list.Metadata.Continue, err
}

func fromJSON(k resource.Kind, data []byte) (page []resource.Object, err error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		obj := k.New(k.Info().GVK)
		if _, err := codec.UnmarshalJSON(item, obj); err != nil {
			return nil, err
		}
		page = append(page, obj)
	}
	return page, nil
}
