// Package config reads upstream's AdmissionConfiguration: the settings of admission plugins.
//
//	config.go   the file, and the table of the plugins that take something
//	plugins.go  what each of them takes
package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/strict"
	"github.com/kloop-dev/kloop/webhook"
)

// Config is a parsed AdmissionConfiguration. The zero value configures nothing.
type Config struct {
	admission.Settings
	Mutating, Validating webhook.Logins // who calls webhooks; nil: nobody says so

	ways webhook.Ways
}

// Read reads the file; "" is none. Kubeconfigs that it names are read by w.
// The error names what is wrong with it, and what was probably meant.
func Read(w webhook.Ways, file string) (t Config, err error) {
	if file == "" {
		return t, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return t, fmt.Errorf("read the admission configuration: %w", err)
	}
	if t, err = parse(w, data, filepath.Dir(file)); err != nil {
		return t, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
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

func parse(w webhook.Ways, data []byte, dir string) (t Config, err error) {
	t.ways = w
	var f pluginFile
	if err := strict.Read(data, &f); err != nil {
		return t, err
	}
	if err := strict.Kind(f.TypeMeta, "AdmissionConfiguration", "apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"); err != nil {
		return t, err
	}
	said := map[string]bool{}
	for _, p := range f.Plugins {
		read, ok := readers[p.Name]
		switch {
		case !ok:
			return t, fmt.Errorf("the admission plugin %q takes no configuration%s", p.Name, strict.Meant(p.Name, slices.Sorted(maps.Keys(readers))))
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

// readers read what the plugins take.
var readers = map[string]func(t *Config, text []byte, dir string) error{
	"PodSecurity": readPodSecurity, "ResourceQuota": readLimited, "EventRateLimit": readEventLimits,
	"PodTolerationRestriction": readTolerations,
	"PodNodeSelector":          readNodeSelectors, "ImagePolicyWebhook": readImagePolicy,
	"MutatingAdmissionWebhook":   logins(func(t *Config) *webhook.Logins { return &t.Mutating }),
	"ValidatingAdmissionWebhook": logins(func(t *Config) *webhook.Logins { return &t.Validating }),
}
