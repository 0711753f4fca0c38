package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/strict"
)

// The versions of the configuration, and those of what is said to plugins. Service account tokens are for plugins of v1 alone (KEP-4412).
const (
	configGroup = "kubelet.config.k8s.io/"
	group       = "credentialprovider.kubelet.k8s.io/"
	v1          = group + "v1"
)

// A file is one file of configuration.
type file struct {
	metav1.TypeMeta `json:",inline"`
	Providers       []plugin `json:"providers"`
}

// A plugin is a program that knows credentials of some registries.
type plugin struct {
	Name                 string           `json:"name"`
	MatchImages          []string         `json:"matchImages"`
	DefaultCacheDuration *metav1.Duration `json:"defaultCacheDuration"`
	APIVersion           string           `json:"apiVersion"`
	Args                 []string         `json:"args"`
	Env                  []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	TokenAttributes *tokenAttributes `json:"tokenAttributes"`

	program string
}

// tokenAttributes have a plugin answer for the pod's service account.
type tokenAttributes struct {
	Audience string   `json:"serviceAccountTokenAudience"`
	Cache    string   `json:"cacheType"`
	Require  *bool    `json:"requireServiceAccount"`
	Required []string `json:"requiredServiceAccountAnnotationKeys"`
	Optional []string `json:"optionalServiceAccountAnnotationKeys"`
}

// read reads the configuration: a file, or all files of a directory in the order of their names.
func read(path string) (list []plugin, err error) {
	files := []string{path}
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		files = nil
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, ext) {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s: no file of it ends in .json, .yaml or .yml", path)
		}
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var f file
		if err := strict.Typed(text, &f, &f.TypeMeta, "CredentialProviderConfig", configGroup+"v1", configGroup+"v1beta1",
			configGroup+"v1alpha1"); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(f.Providers) == 0 {
			return nil, fmt.Errorf("%s: it names no providers", name)
		}
		list = append(list, f.Providers...)
	}
	return list, nil
}

// check says what is wrong with a plugin's configuration, in all its parts, and finds its program.
func (p *plugin) check(bin string) error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(slices.Contains([]string{"", ".", ".."}, p.Name) || strings.ContainsAny(p.Name, "/ "), "name %q: want a program, without a path",
		p.Name)
	wrong(len(p.MatchImages) == 0, "matchImages: at least one is needed")
	for _, m := range p.MatchImages {
		_, err := filepath.Match(m, "")
		wrong(err != nil || strings.Contains(m, "://") || hostOf(m) == "", "matchImages %q: want a registry, as *.example.com:5000/team", m)
	}
	wrong(p.DefaultCacheDuration == nil || p.DefaultCacheDuration.Duration < 0, "defaultCacheDuration: it is needed, and not negative")
	wrong(!slices.Contains([]string{v1, group + "v1beta1", group + "v1alpha1"}, p.APIVersion),
		"apiVersion %q: want %s, v1beta1 or v1alpha1", p.APIVersion, v1)
	if t := p.TokenAttributes; t != nil {
		wrong(p.APIVersion != v1, "tokenAttributes: only with apiVersion %s", v1)
		wrong(t.Audience == "", "serviceAccountTokenAudience: it is needed")
		wrong(t.Cache != "Token" && t.Cache != "ServiceAccount", "cacheType %q: want Token or ServiceAccount", t.Cache)
		wrong(t.Require == nil, "requireServiceAccount: it is needed")
		wrong(t.Require != nil && !*t.Require && len(t.Required) > 0,
			"requiredServiceAccountAnnotationKeys: only with requireServiceAccount")
		for _, k := range t.Required {
			wrong(slices.Contains(t.Optional, k), "annotation %q is both required and optional", k)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	p.program = filepath.Join(bin, p.Name)
	if _, err := exec.LookPath(p.program); err != nil {
		return fmt.Errorf("its program: %w", err)
	}
	return nil
}

// Open reads which plugins there are, in the form of the kubelet's CredentialProviderConfig: config is a file or a directory of them, bin
// the directory of the programs. Both empty: there are none, and nil is returned.
func Open(config, bin string) (*Plugins, error) {
	if config == "" && bin == "" {
		return nil, nil
	}
	if config == "" || bin == "" {
		return nil, errors.New("imageCredentialProviderConfig and imageCredentialProviderBinDir are both needed, or none of them")
	}
	if _, err := os.Stat(bin); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("imageCredentialProviderBinDir: %w", err)
	}
	list, err := read(config)
	if err != nil {
		return nil, fmt.Errorf("imageCredentialProviderConfig: %w", err)
	}
	seen := map[string]bool{}
	for i := range list {
		if err := list[i].check(bin); err != nil {
			return nil, fmt.Errorf("imageCredentialProviderConfig: provider %q: %w", list[i].Name, err)
		}
		if seen[list[i].Name] {
			return nil, fmt.Errorf("imageCredentialProviderConfig: provider %q is there twice", list[i].Name)
		}
		seen[list[i].Name] = true
	}
	return &Plugins{list: list, cache: map[string]answer{}, asked: map[string]*question{}, Now: time.Now, Patience: patience}, nil
}
