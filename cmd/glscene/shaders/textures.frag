precision highp float;
uniform sampler2D image;
varying highp vec2 at;

void main() {
	gl_FragColor = texture2D(image, at);
}
