package node

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"path"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/node/pullrecord"
)

// A keyring holds the credentials of pull secrets. They are matched with an image by its registry's host and port exactly, and by the
// beginning of its path; a host may have wildcards within its parts (*.example.com), as the API documents imagePullSecrets.
type keyring struct{ keys []key }

// A key is one entry of a secret: who opens which part of a registry.
type key struct {
	host, port, path string
	user, password   string
	from             *pullrecord.Secret // nil: they are the node's, for all pods
}

// A credential is one that a pod has for an image; without auth it is none at all.
type credential struct {
	auth *cri.AuthConfig
	from *pullrecord.Secret
}

// entry is one registry's entry in a file of Docker's.
type entry struct{ Username, Password, Auth string }

// A Credential opens a registry, or a part of it, to all pods of the node. Both is user and password in one, as Docker writes them.
type Credential struct{ Server, User, Password, Both string }

// add takes up what a pull secret holds. One that can't be read holds nothing.
func (r *keyring) add(s *corev1.Secret) {
	from := &pullrecord.Secret{UID: string(s.UID), Namespace: s.Namespace, Name: s.Name}
	switch s.Type {
	case corev1.SecretTypeDockerConfigJson:
		r.addFile(s.Data[corev1.DockerConfigJsonKey], from)
	case corev1.SecretTypeDockercfg:
		var auths map[string]entry
		if json.Unmarshal(s.Data[corev1.DockerConfigKey], &auths) == nil {
			r.addAll(auths, from)
		}
	}
}

// addFile takes up a configuration of Docker's. from is the secret that holds it; nil: it is the node's.
func (r *keyring) addFile(text []byte, from *pullrecord.Secret) {
	var conf struct {
		Auths map[string]entry `json:"auths"`
	}
	if json.Unmarshal(text, &conf) == nil {
		r.addAll(conf.Auths, from)
	}
}

func (r *keyring) addAll(auths map[string]entry, from *pullrecord.Secret) {
	for server, e := range auths {
		k := keyOf(server)
		if k.user, k.password = e.Username, e.Password; e.Username == "" {
			both, err := base64.StdEncoding.DecodeString(e.Auth)
			if err != nil || len(both) == 0 {
				continue
			}
			k.user, k.password, _ = strings.Cut(string(both), ":")
		}
		if from != nil {
			k.from = &pullrecord.Secret{UID: from.UID, Namespace: from.Namespace, Name: from.Name, Hash: pullrecord.Hash(k.user, k.password)}
		}
		r.keys = append(r.keys, k)
	}
	r.sort()
}

// sort puts the most particular first; a map has no order of its own, and attempts must have one.
func (r *keyring) sort() {
	coldsort.StableFunc(r.keys, func(a, b key) int {
		return cmp.Or(strings.Compare(b.host+":"+b.port+b.path, a.host+":"+a.port+a.path), strings.Compare(a.user, b.user))
	})
}

// keyOf reads which registry an entry is for: with or without a scheme, and with the version of the registry's API as clients of old
// wrote it.
func keyOf(server string) (k key) {
	for _, scheme := range []string{"https://", "http://"} {
		server = strings.TrimPrefix(server, scheme)
	}
	server, k.path, _ = strings.Cut(server, "/")
	k.path = strings.TrimSuffix(k.path, "/")
	if k.path == "v1" || k.path == "v2" || strings.HasPrefix(k.path, "v1/") || strings.HasPrefix(k.path, "v2/") {
		k.path = ""
	}
	k.host, k.port = hostAndPort(server)
	return k
}

// hostAndPort cuts a registry's address. All names of Docker's own are one.
func hostAndPort(server string) (host, port string) {
	host = server
	if i := strings.LastIndexByte(server, ':'); i > strings.LastIndexByte(server, ']') {
		host, port = server[:i], server[i+1:]
	}
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	return strings.ToLower(host), port
}

// lookup returns the credentials that are good for the image, in the order in which to try them. They name no server: runtimes would
// compare it with a URL.
func (r *keyring) lookup(image string) (list []credential) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil
	}
	host, port := hostAndPort(reference.Domain(named))
	for i := range r.keys {
		k := &r.keys[i]
		if k.port == port && matchHost(k.host, host) && strings.HasPrefix(reference.Path(named), k.path) {
			list = append(list, credential{&cri.AuthConfig{Username: k.user, Password: k.password}, k.from})
		}
	}
	return list
}

// matchHost compares hosts part by part: a wildcard stands for no dot.
func matchHost(pattern, host string) bool {
	if pattern == host {
		return true
	}
	want, have := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
