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

// imageIndex is which nodes hold which images.
type imageIndex struct {
	st    *state
	nodes map[string]int // image → nodes that hold it
	epoch int64
}

func newImageIndex(st *state) *imageIndex { return &imageIndex{st: st, nodes: map[string]int{}} }

// set notes which images the node holds; it says whether that changed.
func (x *imageIndex) set(s *nodeInfo, node *corev1.Node) bool {
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
			x.nodes[name]++
		}
	}
	for name := range s.images {
		if _, still := have[name]; !still {
			changed = true
			if x.nodes[name]--; x.nodes[name] <= 0 {
				delete(x.nodes, name)
			}
		}
	}
	s.images = have
	if changed {
		x.epoch++
	}
	return changed
}

// sum changes when the scores of the images may have: it is 0 while no node holds any.
func (x *imageIndex) sum(images []string) (sum int64) {
	for _, name := range images {
		sum = sum*31 + int64(x.nodes[name])
	}
	if sum == 0 {
		return 0
	}
	return sum*1_000_003 + int64(x.st.nodeCount)
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

func noImages(o *nodeVerdicts) bool { return len(o.images) == 0 }

// scoreImages is the plugin ImageLocality: nodes that hold the pod's images come first, images that few nodes
// hold counting less, so that pods don't all follow one another to the same node.
func scoreImages(o *nodeVerdicts, s *nodeInfo) int64 {
	sum := int64(0)
	for _, name := range o.images {
		if size, ok := s.images[name]; ok {
			sum += int64(float64(size) * float64(o.st.images.nodes[name]) / float64(o.st.nodeCount))
		}
	}
	most := int64(largeImage * len(o.images))
	return maxScore * (min(max(sum, smallImage), most) - smallImage) / (most - smallImage)
}
