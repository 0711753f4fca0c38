package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/pod-security-admission/api"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	reviews "github.com/kloop-dev/kloop/auth/webhook"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// admission are the plugins that are on, with policies and webhooks among them.
func (d *frontDoor) admission(authz auth.Authorizer) (admission.Chain, error) {
	told, err := d.c.cfg.admissionConfig()
	if err != nil {
		return nil, err
	}
	caller := d.caller
	if told.webhooks != nil { // conversion webhooks are not told who calls
		caller = d.newCaller()
		caller.Login = told.webhooks.login
	}
	own := func() client.Client { // the server is not there yet
		return d.local(&auth.User{Name: "system:apiserver", Groups: []string{auth.GroupMasters}}, "kube-apiserver")
	}
	cfg := admission.Config{Authorize: authz, Settings: told.Settings, Kinds: d.set,
		Charge: func(ctx context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
			return client.UpdateStatus(ctx, own(), kinds.ResourceQuotas, q) // the quota plugin's compare-and-swap
		},
		MakeNamespace: func(ctx context.Context, name string) error {
			_, err := own().Create(ctx, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			return err
		}}
	return d.c.cfg.plugins(admission.All(cfg).Before(d.extensions(authz, caller)...))
}

// told is what an AdmissionConfiguration says.
type told struct {
	admission.Settings
	webhooks *logins // nil: nothing
}

// pluginFile is the form of the file.
type pluginFile struct {
	metav1.TypeMeta `json:",inline"`
	Plugins         []struct {
		Name          string `json:"name"`
		Path          string `json:"path,omitempty"`
		Configuration any    `json:"configuration,omitempty"`
	} `json:"plugins,omitempty"`
}

// admissionConfig reads the AdmissionConfiguration.
func (c Config) admissionConfig() (t told, err error) {
	if c.AdmissionConfig == "" {
		return t, nil
	}
	data, err := os.ReadFile(c.AdmissionConfig)
	if err != nil {
		return t, fmt.Errorf("read the admission configuration: %w", err)
	}
	if t, err = parseAdmission(data, filepath.Dir(c.AdmissionConfig)); err != nil {
		return t, fmt.Errorf("%s: %w", c.AdmissionConfig, err)
	}
	return t, nil
}

func parseAdmission(data []byte, dir string) (t told, err error) {
	var f pluginFile
	if err := strictly(data, &f); err != nil {
		return t, err
	}
	if err := kindOf(f.TypeMeta, "AdmissionConfiguration", "apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"); err != nil {
		return t, err
	}
	said := map[string]bool{}
	for _, p := range f.Plugins {
		read, ok := pluginConfigs[p.Name]
		switch {
		case !ok:
			return t, fmt.Errorf("the admission plugin %q takes no configuration%s", p.Name, Meant(p.Name, names(pluginConfigs)))
		case said[p.Name]:
			return t, fmt.Errorf("the admission plugin %s is configured twice", p.Name)
		case p.Path != "" && p.Configuration != nil:
			return t, fmt.Errorf("%s: path and configuration exclude each other", p.Name)
		}
		said[p.Name] = true
		text, err := yaml.Marshal(p.Configuration)
		if p.Path != "" {
			text, err = os.ReadFile(within(dir, p.Path))
		}
		if err == nil && (p.Path != "" || p.Configuration != nil) {
			err = read(&t, text, dir)
		}
		if err != nil {
			return t, fmt.Errorf("configuration of %s: %w", p.Name, err)
		}
	}
	return t, nil
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// pluginConfigs read what the plugins take.
var pluginConfigs = map[string]func(t *told, text []byte, dir string) error{
	"PodSecurity": readPodSecurity, "ResourceQuota": readLimited, "EventRateLimit": readEventLimits, "PodTolerationRestriction": readTolerations,
	"PodNodeSelector": readNodeSelectors, "ImagePolicyWebhook": readImagePolicy,
	"MutatingAdmissionWebhook": readWebhooks, "ValidatingAdmissionWebhook": readWebhooks,
}

func readPodSecurity(t *told, text []byte, _ string) error {
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
	if err := typed(text, &c, &c.TypeMeta, "PodSecurityConfiguration", group+"v1", group+"v1beta1", group+"v1alpha1"); err != nil {
		return err
	}
	labels := map[string]string{}
	for key, value := range c.Defaults {
		label := "pod-security.kubernetes.io/" + key
		switch label {
		case api.EnforceLevelLabel, api.EnforceVersionLabel, api.AuditLevelLabel, api.AuditVersionLabel, api.WarnLevelLabel, api.WarnVersionLabel:
			labels[label] = value
		default:
			return fmt.Errorf("defaults: unknown key %q%s", key, Meant(key, []string{"enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"}))
		}
	}
	if _, errs := api.PolicyToEvaluate(labels, api.Policy{}); len(errs) > 0 {
		return field.ErrorList(errs).ToAggregate()
	}
	t.PodSecurity = admission.PodSecurity{Defaults: labels, Users: c.Exemptions.Usernames, Namespaces: c.Exemptions.Namespaces, RuntimeClasses: c.Exemptions.RuntimeClasses}
	return nil
}

func readLimited(t *told, text []byte, _ string) error {
	var c struct {
		metav1.TypeMeta  `json:",inline"`
		LimitedResources []admission.LimitedResource `json:"limitedResources"`
	}
	err := typed(text, &c, &c.TypeMeta, "ResourceQuotaConfiguration Configuration", "apiserver.config.k8s.io/v1", "resourcequota.admission.k8s.io/v1beta1", "resourcequota.admission.k8s.io/v1alpha1")
	t.Limited = c.LimitedResources
	return err
}

func readEventLimits(t *told, text []byte, _ string) error {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		Limits          []admission.EventLimit `json:"limits"`
	}
	if err := typed(text, &c, &c.TypeMeta, "Configuration", "eventratelimit.admission.k8s.io/v1alpha1"); err != nil {
		return err
	}
	if len(c.Limits) == 0 {
		return fmt.Errorf("limits: none is given")
	}
	known := []string{admission.LimitServer, admission.LimitNamespace, admission.LimitUser, admission.LimitSource}
	for i, l := range c.Limits {
		switch {
		case !strings.Contains(" "+strings.Join(known, " ")+" ", " "+l.Type+" ") || l.Type == "":
			return fmt.Errorf("limits[%d].type: %q is none of %s%s", i, l.Type, strings.Join(known, ", "), Meant(l.Type, known))
		case l.QPS <= 0 || l.Burst <= 0 || l.Burst < l.QPS:
			return fmt.Errorf("limits[%d]: qps and burst must be above 0, and burst no less than qps", i)
		case l.CacheSize < 0:
			return fmt.Errorf("limits[%d].cacheSize: must not be negative", i)
		}
	}
	t.Events = c.Limits
	return nil
}

func readTolerations(t *told, text []byte, _ string) error {
	var c struct {
		metav1.TypeMeta           `json:",inline"`
		admission.TolerationRules `json:",inline"`
	}
	err := typed(text, &c, &c.TypeMeta, "Configuration", "podtolerationrestriction.admission.k8s.io/v1alpha1")
	t.Tolerations = c.TolerationRules
	return err
}

func readNodeSelectors(t *told, text []byte, _ string) error {
	var c struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	err := strictly(text, &c)
	t.NodeSelectors = c.Selectors
	return err
}

func readImagePolicy(t *told, text []byte, dir string) error {
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
	if err := strictly(text, &c); err != nil {
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
	server, err := reviews.NewReviews(within(dir, p.KubeConfigFile), time.Duration(p.RetryBackoff)*time.Millisecond)
	if err != nil {
		return err
	}
	t.Images = &admission.ImagePolicy{Ask: server.Ask, DefaultAllow: p.DefaultAllow,
		Allow: time.Duration(p.AllowTTL) * time.Second, Deny: time.Duration(p.DenyTTL) * time.Second}
	return nil
}

func readWebhooks(t *told, text []byte, dir string) error {
	var c struct {
		metav1.TypeMeta `json:",inline"`
		KubeConfigFile  string `json:"kubeConfigFile"`
	}
	if err := typed(text, &c, &c.TypeMeta, "WebhookAdmissionConfiguration WebhookAdmission", "apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1", "apiserver.k8s.io/v1alpha1"); err != nil {
		return err
	}
	if !filepath.IsAbs(c.KubeConfigFile) {
		c.KubeConfigFile = filepath.Join(dir, c.KubeConfigFile)
	}
	if t.webhooks != nil && t.webhooks.file != c.KubeConfigFile {
		return fmt.Errorf("kubeConfigFile: mutating and validating webhooks must have the same one (%s)", t.webhooks.file)
	}
	cfg, err := clientcmd.LoadFromFile(c.KubeConfigFile)
	if err != nil {
		return err
	}
	t.webhooks = &logins{c.KubeConfigFile, cfg}
	return nil
}

// logins say who calls webhooks, by the names of users in a kubeconfig.
type logins struct {
	file string
	cfg  *clientcmdapi.Config
}

// login is for webhook.Caller.
func (l *logins) login(host string, port int, t *http.Transport) (http.RoundTripper, error) {
	user := l.user(host, port)
	if user == nil {
		return t, nil
	}
	cfg, err := clientcmd.NewDefaultClientConfig(clientcmdapi.Config{AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": user},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + host}}, Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x"}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("who calls the webhook at %s: %w", host, err)
	}
	conf, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("who calls the webhook at %s: %w", host, err)
	}
	if conf != nil {
		t.TLSClientConfig.Certificates, t.TLSClientConfig.GetClientCertificate = conf.Certificates, conf.GetClientCertificate
	}
	return rest.HTTPWrappersForConfig(cfg, t)
}

// user is the most exact one: the name with its port (443 may be left out), then wildcards for its first parts, then *.
func (l *logins) user(host string, port int) *clientcmdapi.AuthInfo {
	tries := []string{fmt.Sprintf("%s:%d", host, port)}
	if port == 443 {
		tries = append([]string{host}, tries...)
	}
	parts := strings.Split(host, ".")
	for i := 1; i < len(parts); i++ {
		wild := "*." + strings.Join(parts[i:], ".")
		if port == 443 {
			tries = append(tries, wild)
		}
		tries = append(tries, fmt.Sprintf("%s:%d", wild, port))
	}
	for _, name := range append(tries, "*") {
		if u := l.cfg.AuthInfos[name]; u != nil {
			return u
		}
	}
	return nil
}

// typed reads a document strictly and checks its kind, one of several separated by blanks.
func typed(text []byte, into any, meta *metav1.TypeMeta, kind string, versions ...string) error {
	if err := strictly(text, into); err != nil {
		return err
	}
	return kindOf(*meta, kind, versions...)
}

func kindOf(m metav1.TypeMeta, kind string, versions ...string) error {
	known := strings.Fields(kind)
	for _, k := range known {
		for _, v := range versions {
			if m.Kind == k && m.APIVersion == v {
				return nil
			}
		}
	}
	if !strings.Contains(" "+kind+" ", " "+m.Kind+" ") || m.Kind == "" {
		return fmt.Errorf("kind %q is not %s%s", m.Kind, strings.Join(known, " or "), Meant(m.Kind, known))
	}
	return fmt.Errorf("apiVersion %q of a %s is none of %s%s", m.APIVersion, m.Kind, strings.Join(versions, ", "), Meant(m.APIVersion, versions))
}

var unknownField = regexp.MustCompile(`unknown field "(?:[^"]*\.)?([^".]+)"`)

// strictly reads YAML that may hold nothing unknown, and says what was probably meant.
func strictly(text []byte, into any) error {
	err := yaml.UnmarshalStrict(text, into)
	if err == nil {
		return nil
	}
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("unknown key %q%s", m[1], Meant(m[1], keysOf(reflect.TypeOf(into), nil)))
	}
	return err
}

// keysOf are the names of all fields of a type and of those below.
func keysOf(t reflect.Type, list []string) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return keysOf(t.Elem(), list)
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				list = append(list, name)
			}
			list = keysOf(t.Field(i).Type, list)
		}
	}
	return list
}
