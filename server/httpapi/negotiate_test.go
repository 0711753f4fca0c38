package httpapi

import (
	"testing"

	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// Custom resources have no protobuf of their own, but their metadata has.
func TestNegotiateWithoutProtobuf(t *testing.T) {
	c := &request{}
	for header, want := range map[string]reply.Format{
		"application/vnd.kubernetes.protobuf":                                                               -1,
		"application/vnd.kubernetes.protobuf,application/json":                                              reply.JSON,
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1":                   reply.Proto,
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/*": reply.Proto,
		"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1":                                   -1,
	} {
		t.Run(header, func(t *testing.T) {
			acc, ok := reply.Negotiate(header, false, c.allows)
			if ok != (want >= 0) || ok && acc.Format != want {
				t.Errorf("%s: %v, %v", header, acc, ok)
			}
		})
	}
}
