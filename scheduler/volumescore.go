package scheduler

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A share is the part of some storage that claims take, in bytes.
type share struct{ of, all int64 }

func (s share) with(of, all resource.Quantity) share {
	return share{s.of + of.Value(), s.all + all.Value()}
}

// spaceGate is the feature by which nodes are ranked by their storage.
const spaceGate = "StorageCapacityScoring"

// usual is VolumeBinding's shape unless the profile has another: where most storage stays free (KEP-4049).
var usual = []Point{{Utilization: 0, Score: maxPoint}, {Utilization: 100, Score: 0}}

// score ranks a node by how full its storage would be: by the volumes that are there for the claims, or else by what new
// ones come from, where that is known.
func (p *volumePlan) score(shape []Point) int64 {
	shares := p.given
	if len(p.static) == 0 {
		shares = p.room
	}
	if len(shares) == 0 {
		return 0
	}
	by, sum := Strategy{Type: byRatio, Shape: shape}, int64(0)
	for _, s := range shares {
		percent := int64(100)
		if s.all > 0 && s.of <= s.all {
			percent = s.of * 100 / s.all
		}
		sum += by.at(percent)
	}
	return int64(math.Round(float64(sum) / float64(len(shares))))
}

// scoreVolumes adds what the plugin VolumeBinding says of the nodes.
func (cy *cycle) scoreVolumes(weight int64) {
	c := cy.class
	if weight == 0 || c.volumes == nil || len(c.volumes.wait) == 0 || !cy.st.on.On(spaceGate) {
		return
	}
	for j, i := range cy.feasible {
		if p, r := c.volumes.plan(cy.st.nodes[i].node); r == nil {
			cy.total[j] += weight * p.score(c.profile.space())
		}
	}
}
