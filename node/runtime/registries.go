package runtime

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/strict"
)

// Registries says where images come from: the file registries.yaml of k3s (https://docs.k3s.io/installation/private-registry), but for
// rewrite, which containerd does not know.
type Registries struct {
	Mirrors map[string]struct {
		Endpoint []string `json:"endpoint"`
	} `json:"mirrors"` // by the registry of an image's name; *: all
	Configs map[string]Registry `json:"configs"` // by host and port
}

// A Registry says how one is spoken to.
type Registry struct {
	Auth struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"` // both, as a Docker configuration has them
	} `json:"auth"`
	TLS struct {
		CA       string `json:"ca_file"`
		Cert     string `json:"cert_file"`
		Key      string `json:"key_file"`
		Insecure bool   `json:"insecure_skip_verify"`
	} `json:"tls"`
}

// hostsDir holds hosts.toml files that somebody else writes.
const hostsDir = "/etc/containerd/certs.d"

// ReadRegistries reads a file; "" is none.
func ReadRegistries(path string) (*Registries, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	r := &Registries{}
	if err == nil {
		err = strict.Read(text, r)
	}
	if err == nil {
		_, err = r.hosts()
	}
	if err != nil {
		return nil, fmt.Errorf("read registries %s: %w", path, err)
	}
	return r, nil
}

// hosts returns the directories of containerd's hosts.toml files with the text of each.
func (r *Registries) hosts() (map[string]string, error) {
	files := map[string]string{}
	for host, m := range r.Mirrors {
		dir, server := host, "https://"+host
		switch host {
		case "*":
			dir, server = "_default", ""
		case "docker.io":
			server = "https://registry-1.docker.io"
		}
		if host == "" || dir != filepath.Base(dir) || dir == ".." || dir == "." {
			return nil, fmt.Errorf("mirrors: %q is no host", host)
		}
		var b strings.Builder
		if server != "" {
			fmt.Fprintf(&b, "server = %s\n", strconv.Quote(server))
		}
		for _, e := range m.Endpoint {
			if err := r.endpoint(&b, e); err != nil {
				return nil, fmt.Errorf("mirrors: %s: %w", host, err)
			}
		}
		files[dir] = b.String()
	}
	for host := range r.Configs {
		if host == "" || host != filepath.Base(host) || strings.HasPrefix(host, ".") {
			return nil, fmt.Errorf("configs: %q is no host", host)
		}
		if _, mirrored := files[host]; mirrored || host == "*" {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "server = %s\n", strconv.Quote("https://"+host))
		if err := r.endpoint(&b, "https://"+host); err != nil {
			return nil, err
		}
		files[host] = b.String()
	}
	return files, nil
}

// endpoint writes how a mirror is spoken to.
func (r *Registries) endpoint(b *strings.Builder, address string) error {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is no address of a registry: want https://host[:port][/path]", address)
	}
	if u.Path == "/v2" || u.Path == "/v2/" {
		u.Path = ""
	}
	fmt.Fprintf(b, "\n[host.%s]\n  capabilities = [\"pull\", \"resolve\"]\n", strconv.Quote(u.String()))
	if strings.Trim(u.Path, "/") != "" {
		b.WriteString("  override_path = true\n")
	}
	tls := r.Configs[u.Host].TLS
	if tls.Insecure {
		b.WriteString("  skip_verify = true\n")
	}
	if tls.CA != "" {
		fmt.Fprintf(b, "  ca = %s\n", strconv.Quote(tls.CA))
	}
	switch {
	case (tls.Cert == "") != (tls.Key == ""):
		return fmt.Errorf("%s: a client certificate needs its key, and a key its certificate", u.Host)
	case tls.Cert != "":
		fmt.Fprintf(b, "  client = [[%s, %s]]\n", strconv.Quote(tls.Cert), strconv.Quote(tls.Key))
	}
	return nil
}

// write puts the hosts.toml files below dir, which holds no others then. containerd reads them with each pull.
func (r *Registries) write(dir string) error {
	files, err := r.hosts()
	if err == nil {
		err = os.RemoveAll(dir)
	}
	for _, host := range slices.Sorted(maps.Keys(files)) {
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, host), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, host, "hosts.toml"), []byte(files[host]), 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("tell containerd the registries: %w", err)
	}
	return nil
}
