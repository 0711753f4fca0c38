package node

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hookClient calls the servers of lifecycle hooks, which are the pod's own: their certificates say nothing.
var hookClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// podDir is where the agent keeps a pod's files.
func (a *Agent) podDir(pod *corev1.Pod) string {
	return filepath.Join(a.cfg.Dir, "pods", string(pod.UID))
}

func (a *Agent) makeDirs(pod *corev1.Pod) error {
	if err := os.MkdirAll(a.podDir(pod), 0o750); err != nil {
		return fmt.Errorf("make the pod's directory: %w", err)
	}
	return nil
}

// removeDirs removes the pod's files, logs and cgroup.
func (a *Agent) removeDirs(pod *corev1.Pod) error {
	for _, dir := range []string{a.podDir(pod), a.logDir(pod)} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the pod's files: %w", err)
		}
	}
	return a.dropCgroup(pod)
}

// hostsFile writes the pod's /etc/hosts.
func (a *Agent) hostsFile(pod *corev1.Pod, box *sandbox) (string, error) {
	var b strings.Builder
	b.WriteString("# Written by the node agent.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
	name := hostname(pod)
	if pod.Spec.Subdomain != "" {
		name = name + "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + a.cfg.Domain + "\t" + name
	}
	for _, ip := range box.ips {
		fmt.Fprintf(&b, "%s\t%s\n", ip, name)
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries of hostAliases.\n")
	}
	for _, h := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", h.IP, strings.Join(h.Hostnames, "\t"))
	}
	path := filepath.Join(a.podDir(pod), "etc-hosts")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return "", fmt.Errorf("write the pod's hosts file: %w", err)
	}
	return path, nil
}
