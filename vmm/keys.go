package vmm

// qcode is the name that QEMU has for the key with which a keyboard of the United States makes a symbol, of
// X's (X11, keysymdef.h; QEMU, qapi/ui.json, QKeyCode); empty for none. What needs Shift is on the key of
// what does not: the viewer says of Shift itself.
func qcode(symbol uint32) string {
	switch {
	case symbol >= 'a' && symbol <= 'z', symbol >= '0' && symbol <= '9':
		return string(rune(symbol))
	case symbol >= 'A' && symbol <= 'Z':
		return string(rune(symbol - 'A' + 'a'))
	case symbol >= 0xffb0 && symbol <= 0xffb9:
		return "kp_" + string(rune(symbol-0xffb0+'0'))
	}
	return qcodes[symbol]
}

var qcodes = map[uint32]string{
	' ': "spc", '-': "minus", '_': "minus", '=': "equal", '+': "equal",
	'[': "bracket_left", '{': "bracket_left", ']': "bracket_right", '}': "bracket_right",
	';': "semicolon", ':': "semicolon", '\'': "apostrophe", '"': "apostrophe", '`': "grave_accent", '~': "grave_accent",
	'\\': "backslash", '|': "backslash", ',': "comma", '<': "comma", '.': "dot", '>': "dot", '/': "slash", '?': "slash",
	'!': "1", '@': "2", '#': "3", '$': "4", '%': "5", '^': "6", '&': "7", '*': "8", '(': "9", ')': "0",

	0xff08: "backspace", 0xff09: "tab", 0xfe20: "tab", 0xff0d: "ret", 0xff1b: "esc", 0xff13: "pause", 0xff14: "scroll_lock",
	0xff61: "print", 0xff15: "sysrq", 0xff67: "menu", 0xff7f: "num_lock", 0xffe5: "caps_lock",
	0xff50: "home", 0xff51: "left", 0xff52: "up", 0xff53: "right", 0xff54: "down", 0xff55: "pgup", 0xff56: "pgdn", 0xff57: "end",
	0xff63: "insert", 0xffff: "delete",
	0xffe1: "shift", 0xffe2: "shift_r", 0xffe3: "ctrl", 0xffe4: "ctrl_r", 0xffe9: "alt", 0xffea: "alt_r", 0xfe03: "alt_r",
	0xffe7: "meta_l", 0xffe8: "meta_r", 0xffeb: "meta_l", 0xffec: "meta_r",
	0xffbe: "f1", 0xffbf: "f2", 0xffc0: "f3", 0xffc1: "f4", 0xffc2: "f5", 0xffc3: "f6",
	0xffc4: "f7", 0xffc5: "f8", 0xffc6: "f9", 0xffc7: "f10", 0xffc8: "f11", 0xffc9: "f12",
	0xff8d: "kp_enter", 0xffaa: "kp_multiply", 0xffab: "kp_add", 0xffad: "kp_subtract", 0xffae: "kp_decimal", 0xffaf: "kp_divide",
	0xff95: "kp_7", 0xff97: "kp_8", 0xff9a: "kp_9", 0xff96: "kp_4", 0xff9d: "kp_5", 0xff98: "kp_6",
	0xff9c: "kp_1", 0xff99: "kp_2", 0xff9b: "kp_3", 0xff9e: "kp_0", 0xff9f: "kp_decimal",
}
