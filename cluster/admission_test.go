package cluster

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
)

func TestGonePlugins(t *testing.T) {
	for name, why := range map[string]string{"SecurityContextDeny": "removed from Kubernetes in 1.30",
		"AlwaysPullImage": "did you mean AlwaysPullImages?"} {
		t.Run(name, func(t *testing.T) {
			if _, err := chosen(plugins.All(admission.Config{}), []string{name}, nil); err == nil || !strings.Contains(err.Error(), why) {
				t.Error(name, err)
			}
		})
	}
	on, err := chosen(plugins.All(admission.Config{}), []string{"AlwaysPullImages"}, []string{"PodSecurity"})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, p := range on {
		there[p.Name] = true
	}
	if !there["AlwaysPullImages"] || there["PodSecurity"] || there["AlwaysDeny"] || !there["NodeRestriction"] {
		t.Error(there)
	}
}
