package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostsFile writes the pod's /etc/hosts. Its first line is upstream's: programs tell by it that the file is not the image's own. Pods
// on the host's network get the host's file, which is read again at every start.
func (st *starter) hostsFile(pod *corev1.Pod, box *sandbox) (string, error) {
	var b strings.Builder
	if pod.Spec.HostNetwork {
		own, err := os.ReadFile("/etc/hosts")
		if err != nil {
			return "", fmt.Errorf("read the host's hosts file: %w", err)
		}
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.Write(own)
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		name := hostname(pod)
		if pod.Spec.Subdomain != "" && pod.Spec.HostnameOverride == nil {
			name = name + "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + st.cfg.Domain + "\t" + name
		}
		for _, ip := range box.ips {
			fmt.Fprintf(&b, "%s\t%s\n", ip, name)
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, h := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", h.IP, strings.Join(h.Hostnames, "\t"))
	}
	path := filepath.Join(st.podDir(pod.UID), "etc-hosts")
	if now, err := os.ReadFile(path); err == nil && string(now) == b.String() {
		return path, nil
	}
	tmp := path + ".new" // on a full disk the one that other containers of the pod have stays as it is
	err := os.WriteFile(tmp, []byte(b.String()), 0o644)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("write the pod's hosts file: %w", err), os.RemoveAll(tmp))
	}
	return path, nil
}
