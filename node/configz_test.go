package node

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/node/pressure"
)

func TestConfiguration(t *testing.T) {
	simulate(t, func(r *rig) {
		list, err := pressure.ParseAll("memory.available<100Mi,nodefs.available<5%", "memory.available<300Mi",
			map[string]string{"memory.available": "1m30s"}, map[string]string{"nodefs.available": "2%"})
		if err != nil {
			t.Fatal(err)
		}
		r.stop()
		r.cfg.Eviction, r.cfg.Resources = list, Resources{SystemReserved: amounts("cpu=500m")}
		r.start()
		text, err := json.Marshal(r.agent.configuration())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"evictionHard":{"memory.available":"104857600","nodefs.available":"5%"}`, `"maxPods":110`,
			`"evictionSoft":{"memory.available":"314572800"}`, `"evictionSoftGracePeriod":{"memory.available":"1m30s"}`,
			`"evictionMinimumReclaim":{"nodefs.available":"2%"}`, `"systemReserved":{"cpu":"500m"}`, `"podPidsLimit":-1`,
			`"clusterDNS":["10.96.0.10"]`, `"memorySwap":{"swapBehavior":"NoSwap"}`, `"kind":"KubeletConfiguration"`,
			`"cpuManagerPolicy":"none"`, `"topologyManagerPolicy":"none"`, `"authorization":{"mode":"Webhook"}`, `"nodeStatusMaxImages":50`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	})
}
