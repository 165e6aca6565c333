// Bundled by prebuild.mjs for the frame in which charts are drawn.
import embed from "vega-embed";

globalThis.vegaEmbed = embed;
