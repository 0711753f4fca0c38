//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// foreign is a cluster whose network and services somebody else makes: a node in a namespace of its own, where /etc/cni/net.d is empty.
func foreign(t *testing.T) (c *testCluster, conf string) {
	t.Helper()
	const ns, addr = "kloop-e2e-3", "10.200.0.4"
	dir := filepath.Join(it.dir, "foreign")
	c = &testCluster{dir: dir, bin: it.bin, kubeconfig: filepath.Join(dir, "data", "admin.kubeconfig")}
	conf = filepath.Join(dir, "cni")
	clear := func() { _ = sh("ip netns del %s; ip link del kle2e3", ns) } // may not be there
	clear()
	t.Cleanup(func() {
		_, _ = c.try("delete", "pods", "--all", "--now") // a sandbox that outlives the node leaves its namespace
		if err := end(c.server, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		c.reap()
		clear()
	})
	if err := sh(`set -e
		mkdir -p %[4]s /etc/cni/net.d
		ip netns add %[1]s
		ip link add kle2e3 type veth peer name eth0 netns %[1]s
		ip link set kle2e3 master %[2]s up
		ip -n %[1]s link set lo up
		ip -n %[1]s link set eth0 up
		ip -n %[1]s addr add %[3]s/24 dev eth0
		ip -n %[1]s route add default via 10.200.0.1`, ns, bridge, addr, conf); err != nil {
		t.Fatal(err)
	}
	logfile, err := os.Create(dir + ".log")
	if err != nil {
		t.Fatal(err)
	}
	defer logfile.Close()
	kloop := fmt.Sprintf("%s/kloop up --data-dir %s/data --root-dir %[2]s/node --listen %s:%s --node real --node-name three --network none "+
		"--proxy-mode none --network-policies=false", c.bin, dir, addr, port)
	c.server = exec.Command("nsenter", "--net=/run/netns/"+ns, "unshare", "-m", "sh", "-c",
		"mount --bind "+conf+" /etc/cni/net.d && exec "+kloop)
	c.server.Stdout, c.server.Stderr = logfile, logfile
	if err := c.server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is ready", func() (bool, string) {
		out, err := c.try("get", "--raw", "/readyz")
		return err == nil, fmt.Sprint(out, err)
	})
	return c, conf
}

// TestForeignNetwork: where kloop makes no network the node waits for one, and pods run on whatever stands in the standard directory, here
// the reference plugins: a bridge with ports of the host, and later ptp. kloop adds no links.
func TestForeignNetwork(t *testing.T) {
	c, conf := foreign(t)
	must := func(args ...string) string {
		t.Helper()
		out, err := c.try(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	eventually(t, "the node says what it lacks", func() (bool, string) {
		out, err := c.try("get", "node", "three", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].message}")
		return strings.Contains(out, "cni plugin not initialized"), fmt.Sprint(out, err)
	})
	if err := sh("%s/kloop image load --data-dir %s/data %[1]s/nginx.tar", c.bin, c.dir); err != nil {
		t.Fatal(err)
	}
	run := func(name string) {
		must("run", name, "--image=nginx:1", "--image-pull-policy=Never", "--port=80", "--overrides="+
			`{"spec":{"containers":[{"name":"`+name+`","image":"nginx:1","imagePullPolicy":"Never",`+
			`"ports":[{"containerPort":80,"hostPort":8090}]}]}}`)
	}
	ends := `"ipam":{"type":"host-local","ranges":[[{"subnet":"10.77.%d.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}` +
		`,{"type":"portmap","capabilities":{"portMappings":true}}]}`
	for i, plugin := range []string{`{"type":"bridge","bridge":"mine0","isGateway":true`, `{"type":"ptp"`} {
		name := fmt.Sprintf("web-%d", i)
		if i == 0 {
			run(name) // waits for the network
		}
		text := `{"cniVersion":"0.4.0","name":"mine","plugins":[` + plugin + "," + fmt.Sprintf(ends, i)
		if err := os.WriteFile(filepath.Join(conf, "10-mine.conflist"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			must("delete", "pod", "web-0", "--now")
			run(name)
		}
		ip, want := "", fmt.Sprintf("10.77.%d.", i)
		eventually(t, name+" runs at an address of "+plugin, func() (bool, string) {
			out, err := c.try("get", "pod", name, "-o", "jsonpath={.status.phase} {.status.podIP}")
			ip = strings.TrimPrefix(out, "Running ")
			return strings.HasPrefix(ip, want), fmt.Sprint(out, err)
		})
		eventually(t, "its port of the host answers", func() (bool, string) {
			resp, err := (&http.Client{Timeout: 3 * time.Second}).Get("http://10.200.0.4:8090/hostname")
			if err != nil {
				return false, err.Error()
			}
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusOK, resp.Status
		})
	}
	out, err := exec.Command("ip", "-n", "kloop-e2e-3", "-o", "link").CombinedOutput()
	if err != nil || strings.Contains(string(out), "kloop-") || strings.Contains(string(out), "cni0") {
		t.Errorf("kloop has its hands in another's network: %s %v", out, err)
	}
}
