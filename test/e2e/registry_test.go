//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/test/need"
	"github.com/kloop-dev/kloop/test/netspace"
)

// The registry listens where containerd needs no certificate of it; the spy has an address that begins with its.
const (
	registryAt = "127.0.0.1:5000"
	spyAt      = "127.0.0.1:50001"
)

// startRegistry runs Docker's registry beside the first node, for who has a password, with the image app:1.
func startRegistry(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("docker-registry")
	need.Have(t, need.Registry, err)
	dir := t.TempDir()
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("version: 0.1\nlog: {level: warn}\nhttp: {addr: '%[1]s'}\nstorage: {filesystem: {rootdirectory: %[2]s/blobs}}\n"+
		"auth: {htpasswd: {realm: e2e, path: %[2]s/htpasswd}}\n", registryAt, dir)
	for name, text := range map[string]string{"config.yml": config, "htpasswd": "puller:" + string(hash) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("nsenter", "--net=/run/netns/"+nodes[0].ns, "docker-registry", "serve", filepath.Join(dir, "config.yml"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end(cmd, syscall.SIGKILL) })
	private := packSleeper(t, dir)
	ctr := fmt.Sprintf("nsenter --net=/run/netns/%s ctr -a %s/runtime/run/containerd.sock -n k8s.io images ", nodes[0].ns, it.home(0))
	if err := sh("%simport %s/app.tar", ctr, dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the registry takes an image", func() (bool, string) {
		err := sh("%spush --plain-http --user puller:right %s", ctr, private)
		return err == nil, fmt.Sprint(err)
	})
	if err := sh("%srm %s", ctr, private); err != nil {
		t.Fatal(err)
	}
}

// packSleeper makes an image that no other test has: what is pulled with a password needs one from then on, whatever its name.
func packSleeper(t *testing.T, dir string) (ref string) {
	t.Helper()
	ref = registryAt + "/app:1"
	program := "package main\n\nimport \"time\"\n\nfunc main() { time.Sleep(time.Hour) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sh(`set -e
		cd %s
		CGO_ENABLED=0 go build -o root/app main.go
		%s/kloop image pack --ref %s --root root --entrypoint /app --out app.tar`, dir, it.bin, ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

// spy is a registry that has nothing and writes down whom it was shown.
func spy(t *testing.T) (shown func() []string) {
	t.Helper()
	ns, err := os.Open("/run/netns/" + nodes[0].ns)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var l net.Listener
	netspace.Space(ns.Fd()).Do(t, func() (err error) {
		l, err = net.Listen("tcp", spyAt)
		return err
	})
	var mu sync.Mutex
	var seen []string
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Get("Authorization"))
		mu.Unlock()
		w.Header().Set("WWW-Authenticate", `Basic realm="e2e"`)
		http.Error(w, "", http.StatusUnauthorized)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// TestPullSecrets pulls from a stock registry that asks for a password, with Secrets as people write them; and no registry hears a password
// of another one whose address begins the same.
func TestPullSecrets(t *testing.T) {
	ns := space(t)
	startRegistry(t)
	shown := spy(t)
	secret := func(name, key, password string) {
		auth := base64.StdEncoding.EncodeToString([]byte("puller:" + password))
		apply(t, ns, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ntype: kubernetes.io/dockerconfigjson\n"+
			"stringData: {.dockerconfigjson: '{\"auths\":{\"%s\":{\"auth\":\"%s\"}}}'}\n", name, key, auth))
	}
	secret("bare", registryAt, "right")
	secret("url", "https://"+registryAt+"/v1/", "right")
	secret("wrong", registryAt, "wrong")
	for _, c := range []struct {
		name, secret, at string
		refused          bool
	}{
		{"none", "", registryAt, true}, {"wrong", "wrong", registryAt, true}, {"spy", "bare", spyAt, true},
		{"bare", "bare", registryAt, false}, {"url", "url", registryAt, false},
	} {
		pod := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  nodeName: %s\n  terminationGracePeriodSeconds: 0\n"+
			"  containers: [{name: c, image: '%s/app:1', imagePullPolicy: Always}]\n", c.name, nodes[0].name, c.at)
		if c.secret != "" {
			pod += "  imagePullSecrets: [{name: " + c.secret + "}]\n"
		}
		apply(t, ns, pod)
		eventually(t, "pod "+c.name, func() (bool, string) {
			p, err := it.client.CoreV1().Pods(ns).Get(context.Background(), c.name, metav1.GetOptions{})
			if err != nil || len(p.Status.ContainerStatuses) == 0 {
				return false, fmt.Sprint(err)
			}
			s := p.Status.ContainerStatuses[0]
			if w := s.State.Waiting; c.refused && w != nil {
				told := slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, w.Reason)
				return told && strings.Contains(w.Message, "401 Unauthorized"), fmt.Sprintf("%+v", w)
			}
			return !c.refused && s.Ready, fmt.Sprintf("%+v", s)
		})
	}
	asked := shown()
	if len(asked) == 0 {
		t.Error("nobody asked the other registry")
	}
	for _, a := range asked {
		if a != "" {
			t.Errorf("the other registry was shown %q", a)
		}
	}
}
