package converge_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// TestCustomNames: what the cluster DNS leaves out of coredns-custom is a gap of the ConfigMap, as long as kloop serves the DNS.
func TestCustomNames(t *testing.T) {
	in := metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns-custom"}
	ours := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns",
		Labels: map[string]string{"app.kubernetes.io/managed-by": "kloop"}}}
	theirs := ours.DeepCopy()
	theirs.Spec.Selector = map[string]string{"k8s-app": "kube-dns"}
	for _, tt := range []struct {
		name, text string
		s          *corev1.Service
		says       string // "": no gap
	}{
		{"all is understood", "log\nhosts {\n 10.0.0.1 a\n fallthrough\n}", ours, ""},
		{"a plugin that is not there", "log\ntemplate IN A", ours,
			"has 1 fault that the cluster DNS leaves out: a.override line 2: kloop's DNS has no template"},
		{"CoreDNS is there", "template IN A", theirs, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &corev1.ConfigMap{ObjectMeta: in, Data: map[string]string{"a.override": tt.text}}
			set := kinds.NewSet()
			v := view.New(set)
			v.Replace(kinds.Services, 1, []resource.Object{tt.s})
			v.Replace(kinds.ConfigMaps, 1, []resource.Object{m})
			step := (&converge.World{Read: v.Snapshot(), Kinds: set, Now: noon, Rules: rules.All()}).Explain(kinds.ConfigMaps, m)
			switch {
			case tt.says == "" && step != nil:
				t.Errorf("%s: %+v", tt.name, step)
			case tt.says != "" && (step == nil || step.Cause != "CoreDNSCustomIgnored" || step.State != converge.Blocked ||
				step.Owner != converge.Person ||
				!strings.Contains(step.Gap().Verdict, tt.says)):
				t.Errorf("%s: %+v", tt.name, step)
			}
		})
	}
}
