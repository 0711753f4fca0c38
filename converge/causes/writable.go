package causes

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

var (
	// unwritten finds the path that a program may not write, and the words by which it says so, before or after it.
	unwritten = pattern.New(`(?i)['"\s:(](/[\w.@+/-]*[\w@+-])['"]?[^/\n]{0,40}?` +
		`(permission denied|EACCES|read-only file ?system|EROFS)|` +
		`(permission denied|EACCES|read-only file ?system|EROFS)[^/\n]{0,40}?['"\s](/[\w.@+/-]*[\w@+-])`)
	// notFiles are paths of which nothing of the pod's own decides whether they may be written.
	notFiles = pattern.New(`^/(proc|sys|dev|var/run/secrets)\b`)
)

// writable advises to let a container write where its program says that it may not: by what is mounted there, and as whom it runs; "": the
// program did not say where, or nobody here knows.
func writable(l *converge.Look, p *corev1.Pod, container, said string) string {
	c, m := podspec.ContainerNamed(&p.Spec, container), unwritten.FindStringSubmatch(said)
	if c == nil || m == nil || notFiles.MatchString(m[1]+m[4]) || strings.Contains(said, "exec:") {
		return ""
	}
	at := m[1] + m[4]
	mount, v := mountedAt(p, c, at)
	if strings.HasPrefix(strings.ToLower(m[2]+m[3]), "read-only") || strings.EqualFold(m[2]+m[3], "EROFS") {
		return unlocked(l, p, c, at, mount, v)
	}
	user, known := runsAs(p, c)
	switch {
	case mount == nil && known:
		return ownDirectory(l, p, c, at, fmt.Sprintf("user %d, as whom container %s runs, may not write to %s of the image: have the image "+
			"give it to that user (chown), or mount an emptyDir there, which hides what the image has there", user, c.Name, path.Dir(at)))
	case v == nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || p.Spec.SecurityContext != nil &&
		p.Spec.SecurityContext.FSGroup != nil:
		return ""
	case v.HostPath != nil:
		return fmt.Sprintf("let user %s write to %s on node %s (chown there): fsGroup does not change what is of the node", userOf(user, known),
			v.HostPath.Path, p.Spec.NodeName)
	case v.NFS != nil:
		return "let its user write to " + v.NFS.Path + " on the server " + v.NFS.Server + ": fsGroup does not change what is there"
	}
	if !known {
		user = 1000
	}
	return retemplate(l, fmt.Sprintf("let it write to the volume %s, which is mounted at %s, by a group of its own", v.Name, mount.MountPath),
		fmt.Sprintf(`{"securityContext":{"fsGroup":%d}}`, user))
}

// unlocked advises what helps where a file system may only be read.
func unlocked(l *converge.Look, p *corev1.Pod, c *corev1.Container, at string, mount *corev1.VolumeMount, v *corev1.Volume) string {
	switch {
	case mount == nil && c.SecurityContext != nil && ptr.Deref(c.SecurityContext.ReadOnlyRootFilesystem, false):
		return ownDirectory(l, p, c, at, "mount an emptyDir where it writes, for its readOnlyRootFilesystem lets it write to nothing else")
	case v != nil && (v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil):
		return edited(l, "have it write elsewhere than below "+mount.MountPath+": the volume "+v.Name+
			" is of a kind that can only be read, so copy what is there to an emptyDir by an init container, if it has to change")
	case mount != nil && mount.ReadOnly:
		return edited(l, "leave readOnly out of its mount of volume "+v.Name+" at "+mount.MountPath+", if it may write there")
	case v != nil && v.PersistentVolumeClaim != nil:
		return "the volume of claim " + v.PersistentVolumeClaim.ClaimName + " may be read only, as after an error of its disk: look at the " +
			"log of node " + p.Spec.NodeName + ", and have the file system checked"
	}
	return ""
}

// ownDirectory is advice with the command that mounts an emptyDir over the directory of a file.
func ownDirectory(l *converge.Look, p *corev1.Pod, c *corev1.Container, at, advice string) string {
	dir := path.Dir(at)
	if dir == "/" {
		dir = at
	}
	name := strings.ToLower(strings.Trim(strings.NewReplacer("/", "-", ".", "-", "_", "-", "@", "-", "+", "-").Replace(dir), "-"))
	name = strings.Trim(name[max(0, len(name)-60):], "-") // no more than a name may have
	return retemplate(l, advice, `{"volumes":[{"name":"`+name+`","emptyDir":{}}],`+strings.TrimPrefix(ofContainer(&p.Spec, c.Name,
		`"volumeMounts":[{"name":"`+name+`","mountPath":"`+dir+`"}]`), "{"))
}

// mountedAt is the mount of a container below which a path lies, and its volume; nil: the path is of the image.
func mountedAt(p *corev1.Pod, c *corev1.Container, at string) (best *corev1.VolumeMount, v *corev1.Volume) {
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		if strings.HasPrefix(at+"/", strings.TrimSuffix(m.MountPath, "/")+"/") && (best == nil || len(m.MountPath) > len(best.MountPath)) {
			best = m
		}
	}
	for i := range p.Spec.Volumes {
		if best != nil && p.Spec.Volumes[i].Name == best.Name {
			v = &p.Spec.Volumes[i]
		}
	}
	if v == nil {
		best = nil
	}
	return best, v
}

// runsAs is the user as whom a container runs, if the pod says so.
func runsAs(p *corev1.Pod, c *corev1.Container) (user int64, known bool) {
	if s := c.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser, true
	}
	if s := p.Spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser, true
	}
	return 0, false
}

// userOf words as whom a container runs.
func userOf(user int64, known bool) string {
	if !known {
		return "of the container"
	}
	return fmt.Sprint(user)
}

// secretsOf names the Secrets, with their keys, from which a container has what looks like the credentials for a server; "": none is seen.
func secretsOf(p *corev1.Pod, container string) (names, first string) {
	c := podspec.ContainerNamed(&p.Spec, container)
	if c == nil {
		return "", ""
	}
	for i := range c.Env {
		if ref := c.Env[i].ValueFrom; ref != nil && ref.SecretKeyRef != nil && credential.MatchString(c.Env[i].Name) {
			names += ", key " + ref.SecretKeyRef.Key + " of secret/" + ref.SecretKeyRef.Name + " (" + c.Env[i].Name + ")"
			if first == "" {
				first = ref.SecretKeyRef.Name
			}
		}
	}
	for i := range c.EnvFrom {
		if ref := c.EnvFrom[i].SecretRef; ref != nil && names == "" {
			names, first = ", secret/"+ref.Name, ref.Name
		}
	}
	return strings.TrimPrefix(names, ", "), first
}

// credential finds names of variables that have credentials.
var credential = pattern.New(`(?i)pass|pwd|user|login|credential|dsn|_ur[li]$|token`)

// limitedBy names the LimitRange by whose default a container has its limit, which its pod's template does not have; "": it is its own.
func limitedBy(l *converge.Look, p *corev1.Pod, container string, name corev1.ResourceName) string {
	c := podspec.ContainerNamed(&p.Spec, container)
	if c == nil || !strings.Contains(p.Annotations["kubernetes.io/limit-ranger"], string(name)+" limit for container "+container) &&
		!strings.Contains(p.Annotations["kubernetes.io/limit-ranger"], string(name)+" limit") {
		return ""
	}
	limit := c.Resources.Limits[name]
	for _, r := range resource.List(l.Read, kinds.LimitRanges, p.Namespace) {
		for i := range r.Spec.Limits {
			if q, is := r.Spec.Limits[i].Default[name]; is && q.Cmp(limit) == 0 {
				return r.Name
			}
		}
	}
	return ""
}
