package scheduler

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	megabyte      = 1024 * 1024
	smallImage    = 23 * megabyte   // below this, having the image is worth nothing
	largeImage    = 1000 * megabyte // per container; above this, nothing more
	maxNodeImages = 1000            // looked at per node
)

// indexImages notes which images the node holds; it says whether that changed.
func (st *state) indexImages(s *slot, node *corev1.Node) bool {
	have := map[string]int64{}
	if node != nil {
		for i, img := range node.Status.Images {
			if i >= maxNodeImages {
				break
			}
			for _, name := range img.Names {
				have[name] = img.SizeBytes
			}
		}
	}
	changed := len(have) != len(s.images)
	for name := range have {
		if _, old := s.images[name]; !old {
			changed = true
			st.imageNodes[name]++
		}
	}
	for name := range s.images {
		if _, still := have[name]; !still {
			changed = true
			if st.imageNodes[name]--; st.imageNodes[name] <= 0 {
				delete(st.imageNodes, name)
			}
		}
	}
	s.images = have
	if changed {
		st.imageEpoch++
	}
	return changed
}

// imageSum changes when the scores of the images may have: it is 0 while no node holds any.
func (st *state) imageSum(images []string) (sum int64) {
	for _, name := range images {
		sum = sum*31 + int64(st.imageNodes[name])
	}
	if sum == 0 {
		return 0
	}
	return sum*1_000_003 + int64(st.nodes)
}

// imagesOf names the pod's images as nodes do, with a tag.
func imagesOf(p *corev1.Pod) (list []string) {
	for _, cs := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range cs {
			name := cs[i].Image
			if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
				name += ":latest"
			}
			list = append(list, name)
		}
	}
	return list
}

// scoreImages is the plugin ImageLocality: nodes that hold the pod's images come first, images that few nodes
// hold counting less, so that pods don't all follow one another to the same node.
func scoreImages(o *outlook, s *slot) int64 {
	sum := int64(0)
	for _, name := range o.images {
		if size, ok := s.images[name]; ok {
			sum += int64(float64(size) * float64(o.st.imageNodes[name]) / float64(o.st.nodes))
		}
	}
	most := int64(largeImage * len(o.images))
	return maxScore * (min(max(sum, smallImage), most) - smallImage) / (most - smallImage)
}
