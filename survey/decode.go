package survey

import (
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
	decode         func(k resource.Kind, data []byte) (page []resource.Object, next string, err error)
}

// metadataOnly asks for names and labels, and nothing that is in the objects.
const metadataOnly = codec.Protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

func howOf(k resource.Kind) how {
	switch {
	case k == resource.Kind(kinds.Secrets) || k == resource.Kind(kinds.ConfigMaps):
		return how{page: pageSize, accept: metadataOnly, decode: fromProto}
	case k == resource.Kind(kinds.Events):
		return how{page: pageSize, accept: codec.Protobuf, fields: "type=" + corev1.EventTypeWarning, decode: fromProto}
	case k.Info().Custom:
		return how{page: pageSize / 4, accept: codec.JSON, decode: fromJSON}
	}
	return how{page: pageSize, accept: codec.Protobuf, decode: fromProto}
}

var errCut = errors.New("the message is cut off")

// fromProto takes a list apart without its type: in all lists of Kubernetes field 1 has the metadata and field 2 the items.
func fromProto(k resource.Kind, data []byte) (page []resource.Object, next string, err error) {
	_, raw, err := codec.OpenEnvelope(data)
	if err != nil {
		return nil, "", err
	}
	for len(raw) > 0 {
		tag, n := binary.Uvarint(raw)
		if n <= 0 || tag&7 != 2 {
			return nil, "", errCut
		}
		size, m := binary.Uvarint(raw[n:])
		if m <= 0 || size > uint64(len(raw)-n-m) {
			return nil, "", errCut
		}
		body := raw[n+m : n+m+int(size)]
		raw = raw[n+m+int(size):]
		switch tag >> 3 {
		case 1:
			var meta metav1.ListMeta
			if err := meta.Unmarshal(body); err != nil {
				return nil, "", err
			}
			next = meta.Continue
		case 2:
			obj := k.New(k.Info().GVK)
			p, ok := obj.(codec.Proto)
			if !ok {
				return nil, "", codec.ErrNoProtobuf
			}
			if err := p.Unmarshal(body); err != nil {
				return nil, "", err
			}
			page = append(page, lighter(obj))
		}
	}
	return page, next, nil
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

func fromJSON(k resource.Kind, data []byte) (page []resource.Object, next string, err error) {
	var list struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, "", err
	}
	for _, item := range list.Items {
		obj := k.New(k.Info().GVK)
		if _, err := codec.UnmarshalJSON(item, obj); err != nil {
			return nil, "", err
		}
		page = append(page, obj)
	}
	return page, list.Metadata.Continue, nil
}
