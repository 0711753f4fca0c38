//go:build linux

package netpolicy

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// hookRules is the number of rules that hook makes in a chain, to know whether they are all there.
func hookRules(chain string, v6 bool) int {
	n := 4
	if v6 {
		n++
	}
	if chain == ledName {
		n++
	}
	return n
}

// hook queues the chain that forwarded packets pass, and that of packets that a virtual server of the proxy's mode ipvs led to a pod:
// those leave the machine as if they were its own. Destinations are chosen by then, sources are still the clients'. Packets that the node
// sends to its own pods have its address and pass; those that its pods send to it do not come here.
func (w *writer) hook() {
	w.hookAt(hookName, nftables.ChainHookForward)
	w.hookAt(ledName, nftables.ChainHookOutput)
}

func (w *writer) hookAt(name string, num *nftables.ChainHook) {
	priority := *nftables.ChainPriorityFilter - 5
	c := w.c.AddChain(&nftables.Chain{Name: name, Table: w.t, Type: nftables.ChainTypeFilter, Hooknum: num, Priority: &priority})
	known := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	w.rule(c, []expr.Any{
		&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: known, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
		&expr.Verdict{Kind: expr.VerdictReturn}})
	if name == ledName {
		w.rule(c, []expr.Any{
			&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagSADDR: true},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
			&expr.Verdict{Kind: expr.VerdictReturn}})
	}
	if w.p.V6 {
		const solicitation, redirect = 133, 137 // neighbour discovery, RFC 4861
		w.rule(c, []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_ICMPV6}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Len: 1},
			&expr.Cmp{Op: expr.CmpOpGte, Register: 1, Data: []byte{solicitation}},
			&expr.Cmp{Op: expr.CmpOpLte, Register: 1, Data: []byte{redirect}},
			&expr.Verdict{Kind: expr.VerdictReturn}})
	}
	second := unix.NFT_REG32_00 + uint32(w.length()/4)
	w.rule(c, []expr.Any{w.address(true, unix.NFT_REG32_00), w.address(false, second),
		&expr.Lookup{SourceRegister: unix.NFT_REG32_00, SetName: selfSet}, &expr.Verdict{Kind: expr.VerdictReturn}})
	w.rule(c, []expr.Any{w.address(true, unix.NFT_REG32_00), lead(egressMap)})
	w.rule(c, []expr.Any{w.address(false, unix.NFT_REG32_00), lead(ingressMap)})
}

func lead(set string) expr.Any {
	return &expr.Lookup{SourceRegister: unix.NFT_REG32_00, DestRegister: 0, IsDestRegSet: true, SetName: set}
}

// prepareKernel shows the rules what passes between two pods on one bridge. Without bridges in the kernel there are no such files.
func prepareKernel() error {
	for _, file := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		err := os.WriteFile("/proc/sys/net/bridge/"+file, []byte("1"), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("let rules see bridged packets: %w", err)
		}
	}
	return nil
}
