package plan

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
)

// redact takes the values out of a Secret, and what may repeat them, its annotations: which Secrets there are, of which type, with
// which keys, is all that a plan goes by. The bytes are overwritten, so that nothing of them stays in memory.
func redact(obj resource.Object) {
	s, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	for key, value := range s.Data {
		clear(value)
		s.Data[key] = []byte{}
	}
	for key := range s.StringData {
		s.StringData[key] = ""
	}
	maps.DeleteFunc(s.Annotations, func(key, _ string) bool { return !strings.HasPrefix(key, "kubernetes.io/") })
}
