package controllers_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/corefile"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// TestCustomNames: what the ConfigMap coredns-custom adds reaches the Service that agents read, follows its changes, and what is not
// understood is an event of the ConfigMap.
func TestCustomNames(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		custom := func(data map[string]string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: corefile.Namespace, Name: corefile.Name}, Data: data}
		}
		is := func(what string, ok func(text string) bool) {
			t.Helper()
			c.until(what, func(r resource.Reader) bool {
				s := resource.Get(r, kinds.Services, corefile.Namespace, "kube-dns")
				return s != nil && ok(s.Annotations[wellknown.DNSCustomAnnotation])
			})
		}
		make1(c, kinds.ConfigMaps, custom(map[string]string{"a.server": "corp.example {\n forward . 10.0.0.53\n}",
			"b.override": "template IN A"}))
		edit(c, kinds.Nodes, "", "sim-0", "", func(n *corev1.Node) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, wellknown.DNSAnnotation,
				"10053")
		})
		is("nodes are told of the stub domain", func(text string) bool { return strings.Contains(text, "10.0.0.53:53") })
		c.until("the fault is told", func(r resource.Reader) bool {
			for _, e := range resource.List(r, kinds.Events, corefile.Namespace) {
				if e.Reason == "CoreDNSCustomIgnored" && e.InvolvedObject.Name == corefile.Name {
					return strings.HasPrefix(e.Message, "b.override line 1: kloop's DNS has no template")
				}
			}
			return false
		})
		edit(c, kinds.ConfigMaps, corefile.Namespace, corefile.Name, "", func(m *corev1.ConfigMap) {
			m.Data = map[string]string{"a.server": "corp.example {\n forward . 10.0.0.54\n}"}
		})
		is("nodes are told of the change", func(text string) bool { return strings.Contains(text, "10.0.0.54:53") })
		edit(c, kinds.Services, corefile.Namespace, "kube-dns", "", func(s *corev1.Service) {
			delete(s.Annotations,
				wellknown.DNSCustomAnnotation)
		})
		is("what somebody took away is back", func(text string) bool { return strings.Contains(text, "10.0.0.54:53") })
		if err := c.Delete(c.t.Context(), kinds.ConfigMaps, corefile.Namespace, corefile.Name, nil); err != nil {
			t.Fatal(err)
		}
		is("nothing is left of it", func(text string) bool { return text == "" })
	})
}
