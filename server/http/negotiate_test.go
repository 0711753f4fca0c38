package httpapi

import "testing"

// Custom resources have no protobuf of their own, but their metadata has.
func TestNegotiateWithoutProtobuf(t *testing.T) {
	c := &call{}
	for header, want := range map[string]format{
		"application/vnd.kubernetes.protobuf":                                                               -1,
		"application/vnd.kubernetes.protobuf,application/json":                                              asJSON,
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1":                   asProto,
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/*": asProto,
		"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1":                                   -1,
	} {
		acc, ok := negotiate(header, false, c.allows)
		if ok != (want >= 0) || ok && acc.format != want {
			t.Errorf("%s: %v, %v", header, acc, ok)
		}
	}
}
