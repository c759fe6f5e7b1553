package vmm

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"pvdrm/vmm/qmp"
	"pvdrm/vmm/vnc"
)

// Input passes what viewers do to a machine, any QEMU that Client is connected to. Keys it has always; a
// pointer needs a tablet there, such as virtio-tablet-pci.
type Input struct {
	Client *qmp.Client
	Log    *zap.Logger

	refused sync.Once
}

var _ vnc.Input = (*Input)(nil)

// inputEvent is QEMU's InputEvent (QEMU, qapi/ui.json).
type inputEvent struct {
	Type string `json:"type"`
	Data any    `json:"data"`
}

type keyData struct {
	Down bool     `json:"down"`
	Key  keyValue `json:"key"`
}

type keyValue struct {
	Type string `json:"type"` // number or qcode
	Data any    `json:"data"`
}

type buttonData struct {
	Down   bool   `json:"down"`
	Button string `json:"button"`
}

type axisData struct {
	Axis  string `json:"axis"`
	Value int    `json:"value"`
}

// Input takes what viewers of the machine's screen do. It has the devices for that if Config.Input
// was set.
func (vm *VM) Input(log *zap.Logger) *Input { return &Input{Client: vm.qmp, Log: log} }

// Key is part of vnc.Input. A key that no PC has is left out.
func (i *Input) Key(ctx context.Context, k vnc.Key, down bool) error {
	v := keyValue{"number", k.Code}
	if k.Code == 0 {
		name := qcode(k.Symbol)
		if name == "" {
			return nil
		}
		v = keyValue{"qcode", name}
	}
	return i.send(ctx, inputEvent{"key", keyData{down, v}})
}

// buttonNames are QEMU's InputButton, by bit of vnc.Buttons.
var buttonNames = []string{"left", "middle", "right", "wheel-up", "wheel-down", "wheel-left", "wheel-right"}

// Pointer is part of vnc.Input.
func (i *Input) Pointer(ctx context.Context, x, y int, pressed, changed vnc.Buttons) error {
	events := []inputEvent{{"abs", axisData{"x", x}}, {"abs", axisData{"y", y}}}
	for bit, name := range buttonNames {
		if b := vnc.Buttons(1) << bit; changed&b != 0 {
			events = append(events, inputEvent{"btn", buttonData{pressed&b != 0, name}})
		}
	}
	return i.send(ctx, events...)
}

func (i *Input) send(ctx context.Context, events ...inputEvent) error {
	err := i.Client.Execute(ctx, "input-send-event", map[string]any{"events": events}, nil)
	var refused *qmp.Error
	if errors.As(err, &refused) { // it has no such device, which does not keep anybody from looking
		i.refused.Do(func() {
			i.Log.Warn("the machine does not take what a viewer does: it needs virtio-tablet-pci and virtio-keyboard-pci", zap.Error(err))
		})
		return nil
	}
	return err
}
