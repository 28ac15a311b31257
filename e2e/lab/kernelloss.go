package lab

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// lose has the device of p lose a share of what arrives, at random.
func (p *port) lose(handle *netlink.Handle, share float64) error {
	device, err := handle.LinkByName(p.device)
	if err != nil {
		return fmt.Errorf("find %s: %w", p.device, err)
	}
	program, err := loadLoss(share)
	if err != nil {
		return fmt.Errorf("load what loses packets of %s: %w", p.device, err)
	}
	defer unix.Close(program)
	index := device.Attrs().Index
	err = handle.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
	if err != nil {
		return fmt.Errorf("look at what arrives at %s: %w", p.device, err)
	}
	err = handle.FilterAdd(&netlink.BpfFilter{
		FilterAttrs:  netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:           program,
		Name:         "loss",
		DirectAction: true,
	})
	if err != nil {
		return fmt.Errorf("lose what arrives at %s: %w", p.device, err)
	}
	return nil
}

// lost returns how many packets the device of p has lost; none of one that is gone.
func (p *port) lost() (packets int64) {
	_ = within(p.space(), func(handle *netlink.Handle) error {
		device, err := handle.LinkByName(p.device)
		if err != nil {
			return err
		}
		found, err := handle.QdiscList(device)
		for _, one := range found {
			if told := one.Attrs().Statistics; one.Attrs().Parent == netlink.HANDLE_CLSACT && told != nil && told.Queue != nil {
				packets += int64(told.Queue.Drops)
			}
		}
		return err
	})
	return packets
}

// instruction is the kernel's struct bpf_insn.
type instruction struct {
	code, registers uint8
	offset          int16
	value           int32
}

// loading is the beginning of the kernel's union bpf_attr, of BPF_PROG_LOAD.
type loading struct {
	kind, count           uint32
	instructions, licence unsafe.Pointer
	_                     [24]byte // no log, and no flags
}

const (
	randomNumber = 7 // the helper bpf_get_prandom_u32
	passPacket   = 0 // TC_ACT_OK
	dropPacket   = 2 // TC_ACT_SHOT
)

// loadLoss gives the kernel a program for each packet: if a random number of 32 bits is below the share of them, it is dropped.
func loadLoss(share float64) (descriptor int, err error) {
	below := uint32(min(share*(1<<32), math.MaxUint32))
	program := []instruction{
		{code: unix.BPF_JMP | unix.BPF_CALL, value: randomNumber},
		{code: unix.BPF_JMP32 | unix.BPF_JLT | unix.BPF_K, offset: 2, value: int32(below)}, // skips two
		{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, value: passPacket},
		{code: unix.BPF_JMP | unix.BPF_EXIT},
		{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, value: dropPacket},
		{code: unix.BPF_JMP | unix.BPF_EXIT},
	}
	licence := []byte("Apache-2.0\x00")
	asked := loading{
		kind:         unix.BPF_PROG_TYPE_SCHED_CLS,
		count:        uint32(len(program)),
		instructions: unsafe.Pointer(unsafe.SliceData(program)),
		licence:      unsafe.Pointer(unsafe.SliceData(licence)),
	}
	loaded, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&asked)), unsafe.Sizeof(asked))
	if errno != 0 {
		return 0, errno
	}
	return int(loaded), nil
}
