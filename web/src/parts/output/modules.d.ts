declare module "plotly.js-cartesian-dist-min/plotly-cartesian.min.js?url" {
  const address: string;
  export default address;
}
