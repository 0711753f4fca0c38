package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/volume"
)

// A starter makes and starts containers, with their files, mounts and rights.
type starter struct {
	*common
	resolver *resolver
	boxes    *sandboxes
	images   *puller
	stop     *stopper
	vols     *volume.Mounter
	alloc    *allocations
}

// start makes and starts one container, and has the pod looked at again for what the runtime then shows. A failure shows in the
// container's status, and the start is tried again after a pause; until then nothing wakes the pod but what changes.
func (st *starter) start(ctx context.Context, c *loop.Ctx, w world, box *sandbox, s start,
	mounts map[string]string) (again time.Duration, err error) {
	pod, name := w.pod, s.spec.Name
	if left := st.pause(w, name); left > 0 {
		return left, nil
	}
	if s.images, again, err = st.imageVolumes(ctx, w, s.spec); err != nil || s.images == nil {
		return again, err
	}
	image, again, err := st.images.pull(ctx, w, wanted{container: name, image: s.spec.Image, policy: s.spec.ImagePullPolicy})
	if err != nil || image == "" {
		return again, err
	}
	conf, err := st.equipped(ctx, c, pod, box, s, image, mounts)
	if err != nil {
		return st.images.refuse(pod, name, "CreateContainerConfigError", err)
	}
	sandboxConf, err := st.boxes.sandboxConfig(pod, box.try)
	if err != nil {
		return 0, err
	}
	rt := st.cfg.Runtime.Containers
	made, err := rt.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: box.id, Config: conf, SandboxConfig: sandboxConf})
	if err != nil {
		st.meter.Container(kindOf(pod, name), "CreateContainerError")
		return st.images.refuse(pod, name, "CreateContainerError", err)
	}
	if err := st.alloc.actuated(pod, name, s.spec.Resources); err != nil {
		return 0, err
	}
	st.event(pod, name, corev1.EventTypeNormal, "Created", "Container created")
	if _, err := rt.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		st.meter.Container(kindOf(pod, name), "RunContainerError")
		return st.images.failed(pod, name, err)
	}
	st.meter.Container(kindOf(pod, name), "")
	if err := st.linkLog(pod, name, made.ContainerId, filepath.Join(st.logDir(pod), conf.LogPath)); err != nil {
		st.log.Warn("a container's log has no link for log shippers", "object", "pod/"+pod.Namespace+"/"+pod.Name, "err", err)
	}
	st.event(pod, name, corev1.EventTypeNormal, "Started", "Container started")
	st.backoff.clear(pod.UID, "start "+name)
	st.backoff.clear(pod.UID, "run "+name)
	st.images.started(pod.UID, name)
	return loop.Now, st.postStart(ctx, pod, s.spec, made.ContainerId, box)
}

// pause returns the rest of the pause before the next attempt to start the container.
func (st *starter) pause(w world, name string) time.Duration {
	left, _ := st.backoff.left(w.pod.UID, "start "+name, w.now)
	if c := w.seen.newest(name); left > 0 || c != nil && c.ended() {
		return left // after an end its own pause is over
	}
	left, _ = st.backoff.left(w.pod.UID, "run "+name, w.now)
	return left
}

// equipped is a container's configuration, with the hardware that it has for itself.
func (st *starter) equipped(ctx context.Context, c *loop.Ctx, pod *corev1.Pod, box *sandbox, s start, image string,
	mounts map[string]string) (*cri.ContainerConfig, error) {
	conf, err := st.containerConfig(ctx, c, pod, box, s, image, mounts)
	if err != nil {
		return nil, err
	}
	given, err := st.hardware.start(ctx, pod, s.spec)
	if err != nil {
		return nil, err
	}
	equip(conf, given)
	st.hardware.place(pod.UID, s.spec.Name, conf.Linux.Resources)
	mapMounts(conf.Mounts, conf.Linux.SecurityContext.NamespaceOptions.UsernsOptions)
	return conf, nil
}

func (st *starter) containerConfig(ctx context.Context, c *loop.Ctx, pod *corev1.Pod, box *sandbox, s start, image string,
	volumes map[string]string) (*cri.ContainerConfig, error) {
	env, err := st.resolver.environment(ctx, c, pod, s.spec, box, volumes)
	if err != nil {
		return nil, err
	}
	mounts, err := st.mounts(ctx, pod, s, env, volumes, box)
	if err != nil {
		return nil, err
	}
	term, err := st.terminationFile(pod, s)
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, term)
	security, err := st.containerSecurity(ctx, pod, s.spec, image)
	if err != nil {
		return nil, err
	}
	if security.NamespaceOptions.UsernsOptions, err = st.boxes.users.options(pod); err != nil {
		return nil, err
	}
	if s.target != "" {
		security.NamespaceOptions.Pid, security.NamespaceOptions.TargetId = cri.NamespaceMode_TARGET, s.target
	}
	conf := &cri.ContainerConfig{
		Metadata:   &cri.ContainerMetadata{Name: s.spec.Name, Attempt: uint32(s.try)},
		Image:      &cri.ImageSpec{Image: image, UserSpecifiedImage: s.spec.Image},
		Command:    expandAll(s.spec.Command, env),
		Args:       expandAll(s.spec.Args, env),
		WorkingDir: s.spec.WorkingDir,
		Mounts:     mounts,
		Devices:    volumeDevices(pod, s.spec, volumes),
		LogPath:    filepath.Join(s.spec.Name, strconv.Itoa(int(s.try))+".log"),
		Stdin:      s.spec.Stdin, StdinOnce: s.spec.StdinOnce, Tty: s.spec.TTY,
		Labels:      map[string]string{},
		Annotations: notes(pod, s),
		Linux:       &cri.LinuxContainerConfig{Resources: st.terms.container(pod, s.spec), SecurityContext: security},
	}
	noteThroughout(conf)
	maps.Copy(conf.Labels, map[string]string{labelPod: pod.Name, labelNamespace: pod.Namespace, labelUID: string(pod.UID),
		labelContainer: s.spec.Name})
	for _, e := range env {
		conf.Envs = append(conf.Envs, &cri.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	return conf, os.MkdirAll(filepath.Join(st.logDir(pod), s.spec.Name), 0o755)
}

// notes hold what a later agent needs to know of a container and can't read off its spec.
func notes(pod *corev1.Pod, s start) map[string]string {
	m := map[string]string{
		noteRestarts: strconv.Itoa(int(s.try)), noteHash: hashOf(s.spec), noteMessage: s.spec.TerminationMessagePath,
		notePolicy: string(s.spec.TerminationMessagePolicy), noteGrace: strconv.FormatInt(graceOf(pod, nil), 10)}
	if s.life > 0 {
		m[noteLife] = strconv.Itoa(s.life)
	}
	return m
}

// kindOf names a container's sort for metrics.
func kindOf(pod *corev1.Pod, name string) string {
	named := func(c corev1.Container) bool { return c.Name == name }
	switch {
	case slices.ContainsFunc(pod.Spec.Containers, named):
		return "container"
	case slices.ContainsFunc(pod.Spec.InitContainers, named):
		return "init_container"
	}
	return "ephemeral_container"
}

// terminationFile makes the file that the container leaves its last words in.
func (st *starter) terminationFile(pod *corev1.Pod, s start) (*cri.Mount, error) {
	host := st.lastWords(pod, s.spec.Name, s.try)
	if err := os.MkdirAll(filepath.Dir(host), 0o755); err != nil {
		return nil, fmt.Errorf("make the termination message's directory: %w", err)
	}
	if err := os.WriteFile(host, nil, 0o666); err != nil {
		return nil, fmt.Errorf("make the termination message's file: %w", err)
	}
	if err := os.Chmod(host, 0o666); err != nil { // whatever the umask: any user of the container may write
		return nil, err
	}
	path := s.spec.TerminationMessagePath
	if path == "" {
		path = corev1.TerminationMessagePathDefault
	}
	return &cri.Mount{ContainerPath: path, HostPath: host, SelinuxRelabel: st.vols.Labels.Enabled()}, nil
}

// mounts are the container's volume mounts and the files that every container gets.
func (st *starter) mounts(ctx context.Context, pod *corev1.Pod, s start, env []corev1.EnvVar, volumes map[string]string,
	box *sandbox) (list []*cri.Mount, err error) {
	etcHosts, spec := false, s.spec
	for i := range spec.VolumeMounts {
		m := &spec.VolumeMounts[i]
		etcHosts = etcHosts || m.MountPath == "/etc/hosts"
		sub, err := subPath(m, env)
		if err != nil {
			return nil, err
		}
		throughout, err := st.boxes.readOnlyThroughout(ctx, pod, m)
		if err != nil {
			return nil, err
		}
		if image := s.images[m.Name]; image != nil {
			list = append(list, imageMount(m, image, sub, throughout))
			continue
		}
		host, ok := volumes[m.Name]
		if !ok {
			return nil, fmt.Errorf("mount %s: the pod has no such volume", m.Name)
		}
		if sub != "" {
			if host, err = st.vols.Pin(pod.UID, spec.Name, i, host, sub); err != nil {
				return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", m.Name, spec.Name, err)
			}
		}
		list = append(list, &cri.Mount{ContainerPath: m.MountPath, HostPath: host, Readonly: m.ReadOnly || readOnly(pod, m.Name),
			Propagation: propagation(m), RecursiveReadOnly: throughout, SelinuxRelabel: st.vols.Labels.Relabel(pod, m.Name)})
	}
	if !etcHosts {
		path, err := st.hostsFile(pod, box)
		if err != nil {
			return nil, err
		}
		list = append(list, &cri.Mount{ContainerPath: "/etc/hosts", HostPath: path, SelinuxRelabel: st.vols.Labels.Enabled()})
	}
	return list, nil
}

// volumeDevices are the volumes that the container uses as block devices.
func volumeDevices(pod *corev1.Pod, spec *corev1.Container, volumes map[string]string) (list []*cri.Device) {
	for _, d := range spec.VolumeDevices {
		rights := "mrw"
		if readOnly(pod, d.Name) {
			rights = "r"
		}
		list = append(list, &cri.Device{HostPath: volumes[d.Name], ContainerPath: d.DevicePath, Permissions: rights})
	}
	return list
}

// readOnly says that the volume is not for containers to write, whatever their mounts say.
func readOnly(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return volume.ReadOnly(&pod.Spec.Volumes[i])
		}
	}
	return false
}

func propagation(m *corev1.VolumeMount) cri.MountPropagation {
	if m.MountPropagation == nil {
		return cri.MountPropagation_PROPAGATION_PRIVATE
	}
	switch *m.MountPropagation {
	case corev1.MountPropagationHostToContainer:
		return cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case corev1.MountPropagationBidirectional:
		return cri.MountPropagation_PROPAGATION_BIDIRECTIONAL
	}
	return cri.MountPropagation_PROPAGATION_PRIVATE
}

// postStart runs the hook; a container whose hook fails is stopped. Events do not tell how it failed: that may be secret. A pod that is
// to end does not wait for it.
func (st *starter) postStart(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, id string, box *sandbox) error {
	if spec.Lifecycle == nil || spec.Lifecycle.PostStart == nil {
		return nil
	}
	within, done := st.patience.begin(ctx, pod.UID)
	err := st.stop.hook(within, pod, spec, spec.Lifecycle.PostStart, id, box)
	done()
	if err == nil || st.patience.over(pod.UID) {
		return err
	}
	st.images.note(pod.UID, spec.Name, "PostStartHookError", hookFailed(pod, spec.Name, spec.Lifecycle.PostStart, err))
	st.event(pod, spec.Name, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	ends := kill{c: &container{id: id, name: spec.Name}, spec: spec, why: "FailedPostStartHook"}
	return errors.Join(fmt.Errorf("run the post-start hook of %s: %w", spec.Name, err), st.stop.kill(ctx, pod, []kill{ends}))
}
