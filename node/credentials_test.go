package node

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// pullSecret has an entry for every registry, whose user has the registry's name.
func pullSecret(servers ...string) *corev1.Secret {
	var list []string
	for _, s := range servers {
		list = append(list, fmt.Sprintf(`%q:{"auth":%q}`, s, base64.StdEncoding.EncodeToString([]byte(s+":secret"))))
	}
	return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{` + strings.Join(list, ",") + `}}`)}}
}

// Credentials go to the registry that they are for, and to no other.
func TestKeyring(t *testing.T) {
	for _, c := range []struct{ servers, image, want string }{
		{"example.co", "example.com/app:1", ""},
		{"example.com", "example.com/app:1", "example.com"},
		{"example.com", "example.com.evil.org/app", ""},
		{"example.com", "example.com:5000/app", ""},
		{"example.com:5000", "example.com:5000/app", "example.com:5000"},
		{"example.com:5000", "example.com:50001/app", ""},
		{"https://example.com", "example.com/app", "https://example.com"},
		{"https://example.com/v2/", "example.com/app@sha256:" + strings.Repeat("0", 64), "https://example.com/v2/"},
		{"http://example.com/team", "example.com/team/app", "http://example.com/team"},
		{"example.com/team", "example.com/other/app", ""},
		{"example.com example.com/team", "example.com/team/app", "example.com/team example.com"},
		{"*.example.com", "eu.example.com/app", "*.example.com"},
		{"*.example.com", "a.eu.example.com/app", ""},
		{"*.example.com", "example.com/app", ""},
		{"https://index.docker.io/v1/", "nginx", "https://index.docker.io/v1/"},
		{"docker.io", "team/app:1", "docker.io"},
		{"docker.io", "docker.io/library/nginx", "docker.io"},
		{"index.docker.io", "localhost/nginx", ""},
		{"n", "nginx", ""},
		{"[::1]:5000", "[::1]:5000/app", "[::1]:5000"},
		{"example.com", "No Image", ""},
	} {
		t.Run(c.servers, func(t *testing.T) {
			var ring keyring
			ring.add(pullSecret(strings.Fields(c.servers)...))
			var got []string
			for _, k := range ring.lookup(c.image) {
				a := k.auth
				user := a.Username
				if a.Password != "secret" { // the user's name had a colon in it
					user += ":" + strings.TrimSuffix(a.Password, ":secret")
				}
				got = append(got, user)
				if a.ServerAddress != "" {
					t.Errorf("%s: a server is named, which runtimes take for a URL: %q", c.image, a.ServerAddress)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s for %s: %q, want %q", c.servers, c.image, got, c.want)
			}
		})
	}
}

func TestKeyringOfOld(t *testing.T) {
	var ring keyring
	ring.add(&corev1.Secret{Type: corev1.SecretTypeDockercfg,
		Data: map[string][]byte{corev1.DockerConfigKey: []byte(`{"r.test":{"username":"u","password":"p"}}`)}})
	ring.add(&corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte(`nonsense`)}})
	ring.add(&corev1.Secret{Type: corev1.SecretTypeOpaque})
	if list := ring.lookup("r.test/app"); len(list) != 1 || list[0].auth.Username != "u" || list[0].auth.Password != "p" {
		t.Errorf("%v", list)
	}
}
