package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// final says that a driver's error means that it did nothing. After others it may have, or may still be at it.
func final(err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

// failed puts a driver's error in words: its code and message.
func failed(what string, err error) error {
	if what != "" {
		what += ": "
	}
	if st, ok := status.FromError(err); ok {
		return &callError{text: fmt.Sprintf("%srpc error: code = %s desc = %s", what, st.Code(), st.Message()), err: err}
	}
	return &callError{text: what + err.Error(), err: err}
}

// A StepError says at which step a volume could not be mounted, in the kubelet's words.
type StepError struct {
	Step string // MountVolume.MountDevice
	Err  error
}

// Error tells what failed, without the step.
func (e *StepError) Error() string { return e.Err.Error() }

// Unwrap returns it.
func (e *StepError) Unwrap() error { return e.Err }

// step is the kubelet's word for a step: of a file system, or of a device.
func (r *Request) step(files, device string, err error) error {
	if err == nil {
		return nil
	}
	if r.Block {
		files = device
	}
	return &StepError{files, err}
}

// A callError is a driver's error, in words.
type callError struct {
	text string
	err  error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.err }

// capability describes the volume's use to the driver.
func (r *Request) capability(d *driver) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: r.mode(d)}}
	if r.Block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return c
	}
	mount := &csi.VolumeCapability_MountVolume{FsType: r.fsType()}
	if r.PV != nil {
		mount.MountFlags = slices.Clone(r.PV.Spec.MountOptions)
	}
	if r.Group != nil && d.does(csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP) {
		mount.VolumeMountGroup = strconv.FormatInt(*r.Group, 10)
	}
	c.AccessType = &csi.VolumeCapability_Mount{Mount: mount}
	return c
}

func (r *Request) fsType() string {
	if r.PV != nil {
		return r.PV.Spec.CSI.FSType
	}
	if r.Inline.FSType != nil {
		return *r.Inline.FSType
	}
	return ""
}

// mode is the first access mode of the volume, in the driver's words.
func (r *Request) mode(d *driver) csi.VolumeCapability_AccessMode_Mode {
	many := d.does(csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	mode := corev1.ReadWriteOnce
	if r.PV != nil && len(r.PV.Spec.AccessModes) > 0 {
		mode = r.PV.Spec.AccessModes[0]
	}
	switch {
	case mode == corev1.ReadOnlyMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == corev1.ReadWriteMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == corev1.ReadWriteOncePod && many:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case mode == corev1.ReadWriteOnce && many && r.PV != nil:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	}
	return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// secret reads what a reference names; nil: it names nothing.
func (m *Mounter) secret(ctx context.Context, field string, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil || ref.Name == "" {
		return nil, nil
	}
	s, err := client.Find(ctx, m.cfg.Client, kinds.Secrets, ref.Namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("fetching %s %s/%[3]s failed: kubernetes.io/csi: failed to find the secret %[3]s in the namespace %[2]s "+
			"with error: %[4]w", field, ref.Namespace, ref.Name, err)
	}
	out := map[string]string{}
	for k, v := range s.Data {
		out[k] = string(v)
	}
	return out, nil
}

// The keys of the pod's names and tokens in a call.
const (
	infoPrefix = "csi.storage.k8s.io/"
	tokensKey  = infoPrefix + "serviceAccount.tokens"
)

// tell adds to a call what the CSIDriver asks for: the pod's names, and tokens of its service account.
func (m *Mounter) tell(ctx context.Context, r *Request, about *storagev1.CSIDriver, req *csi.NodePublishVolumeRequest) error {
	if about == nil {
		return nil
	}
	words := maps.Clone(req.VolumeContext)
	if words == nil {
		words = map[string]string{}
	}
	if is(about.Spec.PodInfoOnMount) {
		p := r.Pod
		words[infoPrefix+"pod.name"], words[infoPrefix+"pod.namespace"], words[infoPrefix+"pod.uid"] = p.Name, p.Namespace, string(p.UID)
		words[infoPrefix+"serviceAccount.name"] = p.Spec.ServiceAccountName
		words[infoPrefix+"ephemeral"] = strconv.FormatBool(r.PV == nil)
	}
	if len(about.Spec.TokenRequests) > 0 {
		text, err := m.tokens(ctx, r.Pod, about.Spec.TokenRequests)
		if err != nil {
			return err
		}
		if is(about.Spec.ServiceAccountTokenInSecrets) {
			req.Secrets = maps.Clone(req.Secrets)
			if req.Secrets == nil {
				req.Secrets = map[string]string{}
			}
			req.Secrets[tokensKey] = text
		} else {
			words[tokensKey] = text
		}
	}
	req.VolumeContext = words
	return nil
}

func (m *Mounter) tokens(ctx context.Context, pod *corev1.Pod, list []storagev1.TokenRequest) (string, error) {
	const hour = 3600
	out := map[string]Token{}
	for _, t := range list {
		life := int64(hour)
		if t.ExpirationSeconds != nil {
			life = *t.ExpirationSeconds
		}
		got, err := m.cfg.Token(ctx, pod, t.Audience, life)
		if err != nil {
			return "", err
		}
		got.Expires = got.Expires.UTC()
		out[t.Audience] = got
	}
	text, err := json.Marshal(out)
	return string(text), err
}

func is(b *bool) bool { return b != nil && *b }
