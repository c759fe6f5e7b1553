package jit

import "unsafe"

// Places in Crew and meeting, and what native code has of a crew in Frame.
const (
	offBit    = int32(unsafe.Offsetof(Frame{}.bit))
	offCrew   = int32(unsafe.Offsetof(Frame{}.crew))
	offTrues  = int32(unsafe.Offsetof(Frame{}.trues))
	offFalses = int32(unsafe.Offsetof(Frame{}.falses))

	crewLive     = int32(unsafe.Offsetof(Crew{}.live))
	crewReady    = int32(unsafe.Offsetof(Crew{}.ready))
	crewMost     = int32(unsafe.Offsetof(Crew{}.most))
	crewMeetings = int32(unsafe.Offsetof(Crew{}.meetings))
	crewFrames   = int32(unsafe.Offsetof(Crew{}.frames))

	meetingArrived = crewMeetings + int32(unsafe.Offsetof(meeting{}.arrived))
	meetingWaiting = crewMeetings + int32(unsafe.Offsetof(meeting{}.waiting))
	meetingNeed    = crewMeetings + int32(unsafe.Offsetof(meeting{}.need))
	meetingThreads = crewMeetings + int32(unsafe.Offsetof(meeting{}.threads))
	meetingTrues   = crewMeetings + int32(unsafe.Offsetof(meeting{}.trues))
	meetingFalses  = crewMeetings + int32(unsafe.Offsetof(meeting{}.falses))
)

// A meeting has 32 bytes, which native code takes for granted.
var _ [0]struct{} = [unsafe.Sizeof(meeting{}) - 32]struct{}{}
