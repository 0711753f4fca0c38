package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/webhook"
)

const admissionHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"

func TestAdmissionConfiguration(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := `{apiVersion: v1, kind: Config, users: [{name: 'hook.ns.svc', user: {token: exact}}, {name: '*.ns.svc', user: {token: wild}},
  {name: '*', user: {token: any}}],
clusters: [{name: c, cluster: {server: 'https://images:1'}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}`
	for name, text := range map[string]string{"kubeconfig": kubeconfig, "others": kubeconfig,
		"selectors": "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'a=b', ns: 'c=d'}"} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	got, err := parse(webhook.Kubeconfigs(), []byte(admissionHead+`
- name: PodSecurity
  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: baseline,
    warn-version: v1.30}, exemptions: {usernames: [u], namespaces: [kube-system]}}
- name: ResourceQuota
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{resource: pods,
    matchScopes: [{scopeName: PriorityClass, operator: In, values: [high]}]}]}
- name: EventRateLimit
  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Server, qps: 10, burst: 20}]}
- name: PodTolerationRestriction
  configuration: {apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{key: a,
    operator: Exists}]}
- name: PodNodeSelector
  path: selectors
- name: MutatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: kubeconfig}
- name: ValidatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: others}
- name: ImagePolicyWebhook
  configuration: {imagePolicy: {kubeConfigFile: kubeconfig, allowTTL: 50, denyTTL: -1, defaultAllow: true}}
`), dir)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case got.PodSecurity.Defaults["pod-security.kubernetes.io/enforce"] != "baseline" || got.PodSecurity.Users[0] != "u":
		t.Error(got.PodSecurity)
	case len(got.Limited) != 1 || got.Limited[0].MatchScopes[0].Values[0] != "high":
		t.Error(got.Limited)
	case len(got.Events) != 1 || got.Events[0] != admission.EventLimit{Type: "Server", QPS: 10, Burst: 20}:
		t.Error(got.Events)
	case len(got.Tolerations.Default) != 1 || got.NodeSelectors["ns"] != "c=d":
		t.Error(got.Tolerations, got.NodeSelectors)
	case got.Images == nil || got.Images.Allow.Seconds() != 50 || got.Images.Deny != 0 || !got.Images.DefaultAllow:
		t.Error(got.Images)
	}
	if got.Mutating == nil || got.Validating == nil || got.Mutating == got.Validating {
		t.Error("mutating and validating webhooks have credentials of their own: ", got.Mutating, got.Validating)
	}
}

func TestAdmissionConfigurationRefused(t *testing.T) {
	for _, tt := range []struct{ text, why string }{
		{"kind: AdmissionConfiguraton\napiVersion: apiserver.config.k8s.io/v1", "did you mean AdmissionConfiguration?"},
		{"kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v2", "did you mean apiserver.config.k8s.io/v1?"},
		{admissionHead + "- {nam: PodSecurity}", `unknown key "nam"; did you mean name?`},
		{admissionHead + "- {name: PodSecurty}", "did you mean PodSecurity?"},
		{admissionHead + "- {name: PodSecurity}\n- {name: PodSecurity}", "configured twice"},
		{admissionHead + "- {name: PodSecurity, path: a, configuration: {}}", "exclude each other"},
		{admissionHead +
			"- {name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, " +
			"defaults: {enforced: baseline}}}", "did you mean enforce?"},
		{admissionHead +
			"- {name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, " +
			"defaults: {enforce: strict}}}", "must be one of"},
		{admissionHead +
			"- {name: EventRateLimit, configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: " +
			"[{type: Users, qps: 1, burst: 1}]}}", "did you mean User?"},
		{admissionHead +
			"- {name: EventRateLimit, configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: " +
			"[{type: Server Namespace, qps: 1, burst: 1}]}}", "is none of Server"},
		{admissionHead +
			"- {name: EventRateLimit, configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: " +
			"[{type: User, qps: 2, burst: 1}]}}", "burst no less than qps"},
		{admissionHead + "- {name: ImagePolicyWebhook, configuration: {imagePolicy: {allowTTL: 5000}}}",
			"allowTTL of 5000: valid values are -1 and 1 to 1800"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			if _, err := parse(webhook.Kubeconfigs(), []byte(tt.text), t.TempDir()); err == nil || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("%s: %v, want %q", tt.text, err, tt.why)
			}
		})
	}
}
