package volume

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/csi"
)

// Projections are the sources of the pod's projected volumes.
func Projections(pod *corev1.Pod) iter.Seq[*corev1.VolumeProjection] {
	return func(yield func(*corev1.VolumeProjection) bool) {
		for i := range pod.Spec.Volumes {
			if p := pod.Spec.Volumes[i].Projected; p != nil {
				for k := range p.Sources {
					if !yield(&p.Sources[k]) {
						return
					}
				}
			}
		}
	}
}

// Trusts says that a volume of the pod may show the bundle, or showed it: its labels may have changed.
func Trusts(pod *corev1.Pod, b *certificatesv1.ClusterTrustBundle) bool {
	for s := range Projections(pod) {
		switch src := s.ClusterTrustBundle; {
		case src == nil:
		case src.Name != nil && *src.Name == b.Name, src.SignerName != nil && *src.SignerName == b.Spec.SignerName:
			return true
		}
	}
	return false
}

// trustBundle adds a file of trust anchors. What is optional and not there is an empty file.
func (f *filling) trustBundle(ctx context.Context, src *corev1.ClusterTrustBundleProjection, mode fs.FileMode) error {
	list, err := f.m.bundles(ctx, src)
	if err != nil {
		return err
	}
	mode, user := f.private(mode)
	f.files[src.Path] = file{data: anchors(list), mode: mode, user: user}
	return nil
}

// bundles finds what the source asks for, and is an error where that is nothing and must not be.
func (m *Mounter) bundles(ctx context.Context, src *corev1.ClusterTrustBundleProjection) (list []*certificatesv1.ClusterTrustBundle,
	err error) {
	if src.Name != nil {
		b, err := read(ctx, m, kinds.ClusterTrustBundles, "", *src.Name)
		switch {
		case absent(err, src.Optional):
			return nil, nil
		case absent(err, new(true)):
			return nil, fmt.Errorf("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io %q not found", *src.Name)
		case err != nil:
			return nil, err
		}
		return append(list, b), nil
	}
	if src.SignerName == nil {
		return nil, fmt.Errorf("a clusterTrustBundle without name and signerName")
	}
	selects, err := metav1.LabelSelectorAsSelector(src.LabelSelector) // nil selects nothing
	if err != nil {
		return nil, fmt.Errorf("read the selector of trust bundles: %w", err)
	}
	all, complete := m.cfg.Bundles(*src.SignerName)
	if !complete {
		return nil, csi.Wait(fmt.Sprintf("the trust bundles of signer %s have not been read yet", *src.SignerName))
	}
	for _, b := range all {
		if selects.Matches(labels.Set(b.Labels)) {
			list = append(list, b)
		}
	}
	if len(list) == 0 && (src.Optional == nil || !*src.Optional) {
		return nil, fmt.Errorf("combination of signerName %s and labelSelector matched zero ClusterTrustBundles", *src.SignerName)
	}
	return list, nil
}

// anchors are the certificates of all bundles, each once and without what surrounds it.
//
// Unlike Kubernetes, they are in the order of their bytes, not in one by chance: a restart of the agent changes no file.
func anchors(list []*certificatesv1.ClusterTrustBundle) []byte {
	var all [][]byte
	for _, b := range list {
		for block, rest := pem.Decode([]byte(b.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			all = append(all, block.Bytes)
		}
	}
	coldsort.Func(all, bytes.Compare)
	var out bytes.Buffer
	for _, der := range slices.CompactFunc(all, bytes.Equal) {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return out.Bytes()
}
