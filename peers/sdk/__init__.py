"""The features of rocketmq/Features.java again, through rocketq's SDK."""
