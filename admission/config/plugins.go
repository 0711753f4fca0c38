package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/strict"
	"github.com/kloop-dev/kloop/webhook"
)

func readPodSecurity(t *Config, text []byte, _ string) error {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		Defaults        map[string]string `json:"defaults,omitempty"`
		Exemptions      struct {
			Usernames      []string `json:"usernames,omitempty"`
			Namespaces     []string `json:"namespaces,omitempty"`
			RuntimeClasses []string `json:"runtimeClasses,omitempty"`
		} `json:"exemptions"`
	}
	const group = "pod-security.admission.config.k8s.io/"
	if err := strict.Typed(text, &c, &c.TypeMeta, "PodSecurityConfiguration", group+"v1", group+"v1beta1", group+"v1alpha1"); err != nil {
		return err
	}
	labels := map[string]string{}
	for key, value := range c.Defaults {
		label := "pod-security.kubernetes.io/" + key
		switch label {
		case api.EnforceLevelLabel, api.EnforceVersionLabel, api.AuditLevelLabel, api.AuditVersionLabel, api.WarnLevelLabel, api.WarnVersionLabel:
			labels[label] = value
		default:
			return fmt.Errorf("defaults: unknown key %q%s", key, strict.Meant(key,
				[]string{"enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"}))
		}
	}
	if _, errs := api.PolicyToEvaluate(labels, api.Policy{}); len(errs) > 0 {
		return field.ErrorList(errs).ToAggregate()
	}
	t.PodSecurity = admission.PodSecurity{Defaults: labels, Users: c.Exemptions.Usernames, Namespaces: c.Exemptions.Namespaces,
		RuntimeClasses: c.Exemptions.RuntimeClasses}
	return nil
}

func readLimited(t *Config, text []byte, _ string) error {
	var c struct {
		metav1.TypeMeta  `json:",inline"`
		LimitedResources []admission.LimitedResource `json:"limitedResources"`
	}
	err := strict.Typed(text, &c, &c.TypeMeta, "ResourceQuotaConfiguration Configuration", "apiserver.config.k8s.io/v1",
		"resourcequota.admission.k8s.io/v1beta1", "resourcequota.admission.k8s.io/v1alpha1")
	t.Limited = c.LimitedResources
	return err
}

func readEventLimits(t *Config, text []byte, _ string) error {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		Limits          []admission.EventLimit `json:"limits"`
	}
	if err := strict.Typed(text, &c, &c.TypeMeta, "Configuration", "eventratelimit.admission.k8s.io/v1alpha1"); err != nil {
		return err
	}
	if len(c.Limits) == 0 {
		return fmt.Errorf("limits: none is given")
	}
	known := []string{admission.LimitServer, admission.LimitNamespace, admission.LimitUser, admission.LimitSource}
	for i, l := range c.Limits {
		switch {
		case !slices.Contains(known, l.Type):
			return fmt.Errorf("limits[%d].type: %q is none of %s%s", i, l.Type, strings.Join(known, ", "), strict.Meant(l.Type, known))
		case l.QPS <= 0 || l.Burst <= 0 || l.Burst < l.QPS:
			return fmt.Errorf("limits[%d]: qps and burst must be above 0, and burst no less than qps", i)
		case l.CacheSize < 0:
			return fmt.Errorf("limits[%d].cacheSize: must not be negative", i)
		}
	}
	t.Events = c.Limits
	return nil
}

func readTolerations(t *Config, text []byte, _ string) error {
	var c struct {
		metav1.TypeMeta           `json:",inline"`
		admission.TolerationRules `json:",inline"`
	}
	err := strict.Typed(text, &c, &c.TypeMeta, "Configuration", "podtolerationrestriction.admission.k8s.io/v1alpha1")
	t.Tolerations = c.TolerationRules
	return err
}

func readNodeSelectors(t *Config, text []byte, _ string) error {
	var c struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	err := strict.Read(text, &c)
	t.NodeSelectors = c.Selectors
	return err
}

// Bounds of asking about images, upstream's.
const (
	imageTimeout = 30 * time.Second
	imageTries   = 5
)

func readImagePolicy(t *Config, text []byte, dir string) error {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		ImagePolicy     struct {
			KubeConfigFile string `json:"kubeConfigFile"`
			AllowTTL       int64  `json:"allowTTL"`     // s
			DenyTTL        int64  `json:"denyTTL"`      // s
			RetryBackoff   int64  `json:"retryBackoff"` // ms
			DefaultAllow   bool   `json:"defaultAllow"`
		} `json:"imagePolicy"`
	}
	if err := strict.Read(text, &c); err != nil {
		return err
	}
	p := c.ImagePolicy
	for _, v := range []struct {
		name             string
		value            *int64
		least, most, not int64
	}{{"retryBackoff", &p.RetryBackoff, 1, 300_000, 500}, {"allowTTL", &p.AllowTTL, 1, 1800, 300}, {"denyTTL", &p.DenyTTL, 1, 1800, 30}} {
		switch {
		case *v.value == 0:
			*v.value = v.not
		case *v.value < 0: // none at all
			*v.value = 0
		case *v.value < v.least || *v.value > v.most:
			return fmt.Errorf("%s of %d: valid values are -1 and %d to %d", v.name, *v.value, v.least, v.most)
		}
	}
	server, err := t.ways.Open("the image policy webhook", within(dir, p.KubeConfigFile), imageTimeout,
		webhook.Retries{Tries: imageTries, Pause: time.Duration(p.RetryBackoff) * time.Millisecond})
	if err != nil {
		return err
	}
	t.Images = &admission.ImagePolicy{Ask: server.Ask, DefaultAllow: p.DefaultAllow,
		Allow: time.Duration(p.AllowTTL) * time.Second, Deny: time.Duration(p.DenyTTL) * time.Second}
	return nil
}

// logins reads who calls the webhooks of a plugin.
func logins(of func(t *Config) *webhook.Logins) func(t *Config, text []byte, dir string) error {
	return func(t *Config, text []byte, dir string) (err error) {
		var c struct {
			metav1.TypeMeta `json:",inline"`
			KubeConfigFile  string `json:"kubeConfigFile"`
		}
		if err := strict.Typed(text, &c, &c.TypeMeta, "WebhookAdmissionConfiguration WebhookAdmission", "apiserver.config.k8s.io/v1",
			"apiserver.config.k8s.io/v1alpha1", "apiserver.k8s.io/v1alpha1"); err != nil {
			return err
		}
		*of(t), err = t.ways.ReadLogins(within(dir, c.KubeConfigFile))
		return err
	}
}
