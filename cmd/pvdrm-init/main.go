// Command pvdrm-init is the first process of a PVDRM guest; package guestinit is all of it.
package main

import "pvdrm/guest-image/guestinit"

func main() { guestinit.Main() }
